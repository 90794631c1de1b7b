//! A limited function beside the same decision called by hand.

use std::hint::black_box;
use std::sync::LazyLock;

use sluicegate::{Decision, Limit, Limited, Limiter, Rate, limit};

use crate::report::{Goal, Row, Unit};
use crate::runner::{Expect, Scale, best_of, nanos_each};

static BY_HAND: LazyLock<Limiter> = LazyLock::new(|| {
    Limiter::new(Limit::token_bucket(Rate::per_second(1_000_000_000).expect("a rate"), 1_000_000_000).expect("a limit"))
});

/// The work: as good as none.
#[inline(never)]
fn work(number: u64) -> u64 {
    black_box(number).wrapping_mul(3)
}

#[inline(never)]
fn by_hand(number: u64) -> Result<u64, Decision> {
    let decision = BY_HAND.check();
    if !decision.is_allowed() {
        return Err(decision);
    }
    Ok(work(number))
}

#[limit(token_bucket("1000000000/s", burst = 1_000_000_000))]
#[inline(never)]
fn by_attribute(number: u64) -> Result<u64, Limited> {
    Ok(work(number))
}

pub(crate) fn called(scale: Scale) -> Vec<Row> {
    let calls = scale.size(5_000_000);
    let [ours, theirs] = best_of(
        scale.rounds(),
        [
            &mut || nanos_each(calls, Expect::Admitted, |nth| black_box(by_attribute(u64::from(nth))).is_ok()),
            &mut || nanos_each(calls, Expect::Admitted, |nth| black_box(by_hand(u64::from(nth))).is_ok()),
        ],
    );
    vec![Row { case: "attribute", peer: "called by hand", unit: Unit::Nanos, ours, theirs, goal: Goal::ratio(1.2) }]
}
