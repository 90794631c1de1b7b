//! Promised waits are exact to the nanosecond.

use proptest::prelude::*;
use sluicegate_engine::algorithm::Check;

use super::subject::{Subject, admitted, sample_times_from, subjects, with_arrivals};

/// Refused one nanosecond before the promised time, admitted at it and at any later time.
fn assert_exact(subject: &Subject, now: u64, cost: u64) -> Result<(), TestCaseError> {
    match subject.check(now, cost) {
        Check::NotBefore(wait) => {
            prop_assert!(wait > 0, "a refusal without a wait");
            prop_assert!(!subject.admits(now + wait - 1, cost), "admitted before {} ns had passed", wait);
            for later in sample_times_from(subject, now + wait) {
                prop_assert!(subject.admits(later, cost), "refused after {} ns, promised {}", later - now, wait);
            }
        }
        Check::After(delay) => {
            prop_assert!(delay > 0);
            prop_assert!(!admitted(subject.check_departure(now + delay - 1, cost)), "admitted early");
            prop_assert_eq!(subject.check_departure(now + delay, cost), Check::Now);
        }
        Check::Held => {
            for later in sample_times_from(subject, now) {
                prop_assert_eq!(subject.check(later, cost), Check::Held);
            }
        }
        Check::Now | Check::Never => {}
    }
    if let Check::NotBefore(wait) = subject.check_departure(now, cost) {
        prop_assert!(!admitted(subject.check_departure(now + wait - 1, cost)));
        prop_assert_eq!(subject.check_departure(now + wait, cost), Check::Now);
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_promised_wait_is_exact((mut subject, arrivals) in with_arrivals(subjects())) {
        for one in arrivals {
            assert_exact(&subject, one.at, one.cost)?;
            subject.take(one.at, one.cost);
            assert_exact(&subject, one.at, 1)?;
        }
    }

    /// Also after settlements that charged more than fits, and with open reservations.
    #[test]
    fn a_promised_wait_is_exact_after_settling(
        (mut subject, arrivals) in with_arrivals(subjects()),
        settle in prop::collection::vec((any::<prop::sample::Index>(), 0..100u64), 150),
    ) {
        let mut out = Vec::new();
        for (one, (index, actual)) in arrivals.into_iter().zip(settle) {
            if subject.admits(one.at, one.cost) {
                let hold = subject.is_reservable() && actual % 2 == 0;
                out.push(subject.commit(one.at, one.cost, hold));
            }
            if actual % 3 == 0 && !out.is_empty() {
                let taken = out.swap_remove(index.index(out.len()));
                subject.settle(taken, actual, one.at);
            }
            assert_exact(&subject, one.at, one.cost)?;
            assert_exact(&subject, one.at, 1)?;
        }
    }

    /// `reset` is the time until the full limit is available again.
    #[test]
    fn everything_is_available_at_the_reset((mut subject, arrivals) in with_arrivals(subjects())) {
        if !subject.recovers_with_time() {
            return Ok(());
        }
        for one in arrivals {
            subject.take(one.at, one.cost);
            let reset = subject.reset(one.at);
            let whole = if subject.is_warm_up() { 1 } else { subject.limit.capacity() };
            prop_assert_eq!(subject.remaining(one.at + reset), whole);
            prop_assert!(reset > 0 || subject.remaining(one.at) == whole);
        }
    }

    /// A fresh limit imposes no wait.
    #[test]
    fn the_first_caller_never_waits(subject in subjects(), at in 0..1u64 << 59) {
        for cost in super::subject::costs(&subject) {
            prop_assert_eq!(subject.check(at, cost), Check::Now);
        }
    }
}
