//! Giving back and charging later: never more than if the real cost had been taken at once.
//!
//! Two limits live through the same calls. One takes the estimate and settles later; its twin knew the
//! real cost and took that. Whatever the first admits from then on, its twin must admit too.
//!
//! Warm-up is tried apart: a limiter that was charged more is warmer afterwards, so that twins that
//! lead different lives cannot be compared.

use proptest::prelude::*;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::{Alignment, Check, Taken};
use sluicegate_testkit::arrivals::Arrival;
use sluicegate_testkit::bound::Admitted;

use crate::bounds::keeps_its_bound;
use crate::subject::{Subject, costs, counting, moments_from, orderly, wild, with_arrivals};

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
        let cost = self.call.cost;
        if self.known_after > 20 {
            return cost;
        }
        let opens = matches!(subject.limit, Limit::FixedWindow(fixed) if fixed.alignment() == Alignment::FirstUse);
        match cost * self.percent / 100 {
            // A window that begins with its first request began, even if that one was given back whole.
            0 if opens && cost > 0 => 1,
            // Who asks for nothing may turn out to have used something.
            0 if cost == 0 && !opens && self.percent > 100 => self.percent / 100,
            actual => actual,
        }
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
    counting().prop_flat_map(|subject| (Just(subject.clone()), estimates(orderly(&subject), 0..=100))).boxed()
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
        (mut subject, estimates) in counting().prop_flat_map(|subject| {
            (Just(subject.clone()), estimates(orderly(&subject), 0..=400))
        }),
        hold in any::<bool>(),
    ) {
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

    /// Nothing was estimated, yet something was used.
    #[test]
    fn a_charge_after_an_estimate_of_nothing_is_not_lost(
        subject in counting(), first in 0..2u64, at in 1..1u64 << 58, actual in 1..40u64,
    ) {
        let mut subject = subject;
        subject.commit(at / 2, first, false);
        let before = subject.remaining(at);
        let taken = subject.commit(at, 0, false);
        subject.settle(taken, actual, at);
        prop_assert_eq!(subject.remaining(at), before.saturating_sub(actual));
    }

    /// The bound holds with what was really spent, on any clock; for a reservation it holds whether it
    /// was spent when it was made or when it was settled.
    #[test]
    fn the_bound_holds_for_what_was_really_spent(
        (mut subject, estimates) in counting().prop_flat_map(|subject| {
            (Just(subject.clone()), estimates(wild(&subject), 0..=100))
        }),
    ) {
        if matches!(subject.limit, Limit::LeakyBucket(_)) {
            return Ok(()); // It promises departures, and who gave a place back never departed.
        }
        let hold = subject.is_reservable();
        let (mut pending, mut spent_early, mut spent_late) = (Pending::new(), Vec::new(), Vec::new());
        // A reservation is made at one reading of the clock and spent at another: both move time on.
        let mut latest = 0;
        for (turn, one) in estimates.iter().enumerate() {
            let Arrival { at, cost } = one.call;
            for (_, actual) in settle_due(&mut subject, &mut pending, turn, at) {
                latest = at.max(latest);
                spent_late.push(Admitted { at: latest, cost: actual });
            }
            if cost > 0 && subject.admits(at, cost) {
                let actual = one.actual(&subject).min(cost);
                let taken = subject.commit(at, cost, hold);
                pending.push((turn + one.known_after, taken, actual));
                latest = at.max(latest);
                spent_early.push(Admitted { at, cost: actual });
            }
        }
        let early = keeps_its_bound(&subject.limit, &spent_early);
        prop_assert!(early.is_ok(), "{}: {:?}", subject.limit, early);
        if hold {
            let late = keeps_its_bound(&subject.limit, &spent_late);
            prop_assert!(late.is_ok(), "{}: {:?}", subject.limit, late);
        }
    }

    /// With nobody in between, giving everything back restores what could be had.
    #[test]
    fn undoing_at_once_restores_everything((mut subject, arrivals) in with_arrivals(counting())) {
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
