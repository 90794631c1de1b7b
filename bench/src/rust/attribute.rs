//! `#[limit]` on a function, compared with the same decision in plain code: `attribute`.

use std::hint::black_box;
use std::sync::LazyLock;

use sluicegate::{Decision, Limit, Limited, Limiter, Rate, limit};

use crate::report::{Goal, Row, Unit};
use crate::runner::{Expect, Scale, best_of, nanos_each};

static MANUAL_LIMITER: LazyLock<Limiter> = LazyLock::new(|| {
    Limiter::new(
        Limit::token_bucket(Rate::per_second(1_000_000_000).expect("valid rate"), 1_000_000_000).expect("valid limit"),
    )
});

/// Minimal function body.
#[inline(never)]
fn work(number: u64) -> u64 {
    black_box(number).wrapping_mul(3)
}

#[inline(never)]
fn limited_manually(number: u64) -> Result<u64, Decision> {
    let decision = MANUAL_LIMITER.check();
    if !decision.is_allowed() {
        return Err(decision);
    }
    Ok(work(number))
}

#[limit(token_bucket("1000000000/s", burst = 1_000_000_000))]
#[inline(never)]
fn limited_by_attribute(number: u64) -> Result<u64, Limited> {
    Ok(work(number))
}

pub(crate) fn called(scale: Scale) -> Vec<Row> {
    let calls = scale.size(5_000_000);
    let [ours, theirs] = best_of(
        scale.rounds(),
        [
            &mut || {
                nanos_each(calls, Expect::Admitted, |index| black_box(limited_by_attribute(u64::from(index))).is_ok())
            },
            &mut || nanos_each(calls, Expect::Admitted, |index| black_box(limited_manually(u64::from(index))).is_ok()),
        ],
    );
    vec![Row { case: "attribute", peer: "plain code", unit: Unit::Nanos, ours, theirs, goal: Goal::ratio(1.2) }]
}
