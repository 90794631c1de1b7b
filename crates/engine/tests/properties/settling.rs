//! Giving back and charging later: never more than if the real cost had been taken at once.
//!
//! Two limits live through the same calls. One takes the estimate and settles later; its twin knew the
//! real cost and took that. Whatever the first admits from then on, its twin must admit too.

use proptest::prelude::*;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::{Alignment, Check, Taken};
use sluicegate_testkit::arrivals::Arrival;
use sluicegate_testkit::bound::{self, Admitted};

use crate::bounds::keeps_its_bound;
use crate::subject::{Subject, costs, moments_from, orderly, subjects, wild};

/// A call, what it will turn out to cost (in hundredths of its estimate), and after how many further
/// calls that is known; beyond 20 it is never settled at all, being exact.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    call: Arrival,
    percent: u64,
    known_after: usize,
}

impl Estimate {
    fn actual(&self, subject: &Subject) -> u64 {
        if self.known_after > 20 {
            return self.call.cost;
        }
        let actual = self.call.cost * self.percent / 100;
        // A window that begins with its first request began, even if that one was given back whole.
        let opens = matches!(subject.limit, Limit::FixedWindow(fixed) if fixed.alignment() == Alignment::FirstUse);
        actual.max(u64::from(opens))
    }
}

fn estimates(
    calls: BoxedStrategy<Vec<Arrival>>,
    percent: std::ops::RangeInclusive<u64>,
) -> BoxedStrategy<Vec<Estimate>> {
    let settle = prop::collection::vec((percent, 0..30usize), 150);
    (calls, settle)
        .prop_map(|(calls, settle)| {
            let estimate = |(call, (percent, known_after))| Estimate { call, percent, known_after };
            calls.into_iter().zip(settle).map(estimate).collect()
        })
        .boxed()
}

fn refunds() -> BoxedStrategy<(Subject, Vec<Estimate>)> {
    subjects().prop_flat_map(|subject| (Just(subject.clone()), estimates(orderly(&subject), 0..=100))).boxed()
}

/// What is still to be settled: after which call, what, and to how much.
type Pending = Vec<(usize, Taken, u64)>;

fn settle_due(subject: &mut Subject, pending: &mut Pending, turn: usize, at: u64) -> Vec<(Taken, u64)> {
    let (due, later): (Pending, Pending) = pending.drain(..).partition(|(when, ..)| *when <= turn);
    *pending = later;
    let settle = |(_, taken, actual): (usize, Taken, u64)| {
        subject.settle(taken, actual, at);
        (taken, actual)
    };
    due.into_iter().map(settle).collect()
}

fn assert_no_more_generous(subject: &Subject, twin: &Subject, at: u64) -> Result<(), TestCaseError> {
    for cost in costs(subject) {
        match (subject.check(at, cost), twin.check(at, cost)) {
            (Check::Now, theirs) => prop_assert_eq!(theirs, Check::Now, "cost {} at {}", cost, at),
            (Check::After(ours), theirs) => {
                let sooner = matches!(theirs, Check::Now) || matches!(theirs, Check::After(delay) if delay <= ours);
                prop_assert!(sooner, "cost {} at {}: {:?} after {}", cost, at, theirs, ours);
            }
            _ => {}
        }
    }
    prop_assert!(subject.remaining(at) <= twin.remaining(at));
    Ok(())
}

proptest! {
    #[test]
    fn what_is_given_back_never_exceeds_what_was_never_taken((mut subject, estimates) in refunds(), hold in any::<bool>()) {
        // A cold limiter that was charged more is warmer afterwards: see the warm-up tests.
        prop_assume!(!subject.is_warm_up());
        let hold = hold && subject.is_reservable();
        let (mut twin, mut pending) = (subject.fresh(), Pending::new());
        for (turn, one) in estimates.iter().enumerate() {
            let Arrival { at, cost } = one.call;
            settle_due(&mut subject, &mut pending, turn, at);
            assert_no_more_generous(&subject, &twin, at)?;
            if subject.admits(at, cost) {
                let actual = one.actual(&subject).min(cost);
                let settled = one.known_after <= 20;
                let taken = subject.commit(at, cost, hold && settled);
                twin.commit(at, actual, false);
                if settled {
                    pending.push((turn + one.known_after, taken, actual));
                }
            }
            assert_no_more_generous(&subject, &twin, at)?;
        }
        let last = estimates.last().map_or(0, |one| one.call.at);
        settle_due(&mut subject, &mut pending, usize::MAX, last);
        for at in moments_from(&subject, last) {
            assert_no_more_generous(&subject, &twin, at)?;
        }
    }

    /// What cost more than was taken is charged, fit or not.
    #[test]
    fn what_is_charged_later_weighs_as_if_taken_at_once(
        (mut subject, estimates) in subjects().prop_flat_map(|subject| {
            (Just(subject.clone()), estimates(orderly(&subject), 0..=400))
        }),
        hold in any::<bool>(),
    ) {
        prop_assume!(!subject.is_warm_up());
        let hold = hold && subject.is_reservable();
        let (mut twin, mut pending, mut last) = (subject.fresh(), Pending::new(), 0);
        for (turn, one) in estimates.iter().enumerate() {
            last = one.call.at;
            settle_due(&mut subject, &mut pending, turn, last);
            if subject.admits(last, one.call.cost) {
                let actual = one.actual(&subject);
                let taken = subject.commit(last, one.call.cost, hold);
                twin.commit(last, actual, false);
                pending.push((turn + one.known_after, taken, actual));
            }
            // Between a call and its settling the twin knows more. Whenever nothing is open, compare.
            if pending.is_empty() {
                assert_no_more_generous(&subject, &twin, last)?;
            }
        }
        settle_due(&mut subject, &mut pending, usize::MAX, last);
        for at in moments_from(&subject, last) {
            assert_no_more_generous(&subject, &twin, at)?;
        }
    }

    /// The bound holds with what was really spent, on any clock; for a reservation it holds whether it
    /// was spent when it was made or when it was settled.
    #[test]
    fn the_bound_holds_for_what_was_really_spent(
        (mut subject, estimates) in subjects().prop_flat_map(|subject| {
            (Just(subject.clone()), estimates(wild(&subject), 0..=100))
        }),
    ) {
        prop_assume!(!subject.is_warm_up() && !matches!(subject.limit, Limit::LeakyBucket(_)));
        let hold = subject.is_reservable();
        let (mut pending, mut spent_early, mut spent_late) = (Pending::new(), Vec::new(), Vec::new());
        for (turn, one) in estimates.iter().enumerate() {
            let Arrival { at, cost } = one.call;
            for (_, actual) in settle_due(&mut subject, &mut pending, turn, at) {
                spent_late.push(Admitted { at, cost: actual });
            }
            if subject.admits(at, cost) {
                let actual = one.actual(&subject).min(cost);
                let taken = subject.commit(at, cost, hold);
                pending.push((turn + one.known_after, taken, actual));
                spent_early.push(Admitted { at, cost: actual });
            }
        }
        let early = keeps_its_bound(&subject.limit, &bound::effective(&spent_early));
        prop_assert!(early.is_ok(), "{}: {:?}", subject.limit, early);
        if hold {
            let late = keeps_its_bound(&subject.limit, &bound::effective(&spent_late));
            prop_assert!(late.is_ok(), "{}: {:?}", subject.limit, late);
        }
    }

    /// With nobody in between, giving everything back restores what could be had.
    #[test]
    fn undoing_at_once_restores_everything((mut subject, arrivals) in crate::subject::with_arrivals()) {
        prop_assume!(!subject.is_warm_up());
        for one in arrivals {
            if subject.admits(one.at, one.cost) {
                let before = subject.remaining(one.at);
                let taken = subject.commit(one.at, one.cost, subject.is_reservable());
                subject.settle(taken, 0, one.at);
                prop_assert_eq!(subject.remaining(one.at), before);
            }
            subject.take(one.at, 1);
        }
    }
}
