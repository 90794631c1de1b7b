//! Refunds and late charges: never more available than if the actual cost had been charged at once.
//!
//! Two limits get the same calls. One charges the estimate and settles later; its twin charges the actual cost at
//! once. Everything the first admits afterwards, its twin must admit too.
//!
//! Warm-up is tested separately: a limiter that was charged more is warmer afterwards, so twins with different
//! histories cannot be compared.

use proptest::prelude::*;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::{Alignment, Check, LimitCharge};
use sluicegate_testkit::arrivals::Arrival;
use sluicegate_testkit::bound::AdmissionEvent;

use super::bounds::keeps_its_bound;
use super::subject::{Subject, costs, counting, orderly_arrivals, sample_times_from, wild_arrivals, with_arrivals};

/// A call, its actual cost (in hundredths of its estimate), and the number of further calls until it is settled;
/// beyond 20 it is never settled and counts as exact.
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
            // A window aligned to first use stays open even if its first request is fully refunded.
            0 if opens && cost > 0 => 1,
            // A zero-cost call may turn out to have a cost.
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
    counting().prop_flat_map(|subject| (Just(subject.clone()), estimates(orderly_arrivals(&subject), 0..=100))).boxed()
}

/// Open settlements: index of the call, charge, and actual cost.
type PendingCharges = Vec<(usize, LimitCharge, u64)>;

fn settle_due(subject: &mut Subject, pending: &mut PendingCharges, step: usize, at: u64) -> Vec<(LimitCharge, u64)> {
    let (due, later): (PendingCharges, PendingCharges) = pending.drain(..).partition(|(when, ..)| *when <= step);
    *pending = later;
    let settle = |(_, taken, actual): (usize, LimitCharge, u64)| {
        subject.settle(taken, actual, at);
        (taken, actual)
    };
    due.into_iter().map(settle).collect()
}

fn assert_not_more_permissive(subject: &Subject, twin: &Subject, at: u64) -> Result<(), TestCaseError> {
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
    fn refunds_never_exceed_not_having_taken((mut subject, estimates) in refunds(), hold in any::<bool>()) {
        let hold = hold && subject.is_reservable();
        let (mut twin, mut pending) = (subject.fresh(), PendingCharges::new());
        for (round, one) in estimates.iter().enumerate() {
            let Arrival { at, cost } = one.call;
            settle_due(&mut subject, &mut pending, round, at);
            assert_not_more_permissive(&subject, &twin, at)?;
            if subject.admits(at, cost) {
                let actual = one.actual(&subject).min(cost);
                let settled = one.known_after <= 20;
                let taken = subject.commit(at, cost, hold && settled);
                twin.commit(at, actual, false);
                if settled {
                    pending.push((round + one.known_after, taken, actual));
                }
            }
            assert_not_more_permissive(&subject, &twin, at)?;
        }
        let last = estimates.last().map_or(0, |one| one.call.at);
        settle_due(&mut subject, &mut pending, usize::MAX, last);
        for at in sample_times_from(&subject, last) {
            assert_not_more_permissive(&subject, &twin, at)?;
        }
    }

    /// A cost above the charge is charged even if it does not fit.
    #[test]
    fn a_late_charge_counts_like_an_immediate_one(
        (mut subject, estimates) in counting().prop_flat_map(|subject| {
            (Just(subject.clone()), estimates(orderly_arrivals(&subject), 0..=400))
        }),
        hold in any::<bool>(),
    ) {
        let hold = hold && subject.is_reservable();
        let (mut twin, mut pending, mut last) = (subject.fresh(), PendingCharges::new(), 0);
        for (round, one) in estimates.iter().enumerate() {
            last = one.call.at;
            settle_due(&mut subject, &mut pending, round, last);
            if subject.admits(last, one.call.cost) {
                let actual = one.actual(&subject);
                let taken = subject.commit(last, one.call.cost, hold);
                twin.commit(last, actual, false);
                pending.push((round + one.known_after, taken, actual));
            }
            // Between a call and its settlement the twin knows more. Compare only while nothing is open.
            if pending.is_empty() {
                assert_not_more_permissive(&subject, &twin, last)?;
            }
        }
        settle_due(&mut subject, &mut pending, usize::MAX, last);
        for at in sample_times_from(&subject, last) {
            assert_not_more_permissive(&subject, &twin, at)?;
        }
    }

    /// The estimate was zero, but the actual cost is not.
    #[test]
    fn a_charge_after_a_zero_estimate_is_not_lost(
        subject in counting(), first in 0..2u64, at in 1..1u64 << 58, actual in 1..40u64,
    ) {
        let mut subject = subject;
        subject.commit(at / 2, first, false);
        let before = subject.remaining(at);
        let taken = subject.commit(at, 0, false);
        subject.settle(taken, actual, at);
        prop_assert_eq!(subject.remaining(at), before.saturating_sub(actual));
    }

    /// The bound holds for the actual costs, on any clock; for a reservation it holds both if it was spent at its
    /// start and if it was spent at its settlement.
    #[test]
    fn the_bound_holds_for_actual_costs(
        (mut subject, estimates) in counting().prop_flat_map(|subject| {
            (Just(subject.clone()), estimates(wild_arrivals(&subject), 0..=100))
        }),
    ) {
        if matches!(subject.limit, Limit::LeakyBucket(_)) {
            return Ok(()); // Its bound covers departures; a refunded request never departs.
        }
        let hold = subject.is_reservable();
        let (mut pending, mut spent_early, mut spent_late) = (PendingCharges::new(), Vec::new(), Vec::new());
        // A reservation starts at one clock reading and is spent at another: both advance time.
        let mut latest = 0;
        for (round, one) in estimates.iter().enumerate() {
            let Arrival { at, cost } = one.call;
            for (_, actual) in settle_due(&mut subject, &mut pending, round, at) {
                latest = at.max(latest);
                spent_late.push(AdmissionEvent { at: latest, cost: actual });
            }
            if cost > 0 && subject.admits(at, cost) {
                let actual = one.actual(&subject).min(cost);
                let taken = subject.commit(at, cost, hold);
                pending.push((round + one.known_after, taken, actual));
                latest = at.max(latest);
                spent_early.push(AdmissionEvent { at, cost: actual });
            }
        }
        let early = keeps_its_bound(&subject.limit, &spent_early);
        prop_assert!(early.is_ok(), "{}: {:?}", subject.limit, early);
        if hold {
            let bound = keeps_its_bound(&subject.limit, &spent_late);
            prop_assert!(bound.is_ok(), "{}: {:?}", subject.limit, bound);
        }
    }

    /// Without calls in between, a full refund restores the available amount.
    #[test]
    fn an_immediate_refund_restores_the_state((mut subject, arrivals) in with_arrivals(counting())) {
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
