//! Items through `paced` beside the bare stream.

use std::hint::black_box;
use std::time::Instant;

use futures_util::stream::{self, Stream, StreamExt};
use sluicegate::stream::LimitStream;
use sluicegate::{Limit, Limiter, Rate};

use crate::report::{Goal, Row, Unit};
use crate::runner::{Scale, best_of};

/// Drains a stream on this thread and returns nanoseconds per item.
fn drained(items: u64, stream: impl Stream<Item = u64>) -> f64 {
    let started = Instant::now();
    let work = stream.fold(0_u64, async |sum, item| black_box(sum.wrapping_mul(31).wrapping_add(item)));
    let sum = futures_executor::block_on(work);
    let elapsed = started.elapsed();
    black_box(sum);
    elapsed.as_nanos() as f64 / items as f64
}

pub(crate) fn paced(scale: Scale) -> Vec<Row> {
    let items = u64::from(scale.size(10_000_000));
    let bucket = Limit::token_bucket(Rate::per_second(1_000_000_000).expect("a rate"), 1_000_000_000);
    let limiter = Limiter::new(bucket.expect("a bucket"));
    let [ours, bare] = best_of(
        scale.rounds(),
        [&mut || drained(items, stream::iter(0..items).paced(&limiter)), &mut || {
            drained(items, stream::iter(0..items))
        }],
    );
    let per_second = |nanos: f64| 1e9 / nanos;
    vec![Row {
        case: "paced-stream",
        peer: "the bare stream",
        unit: Unit::PerSecond,
        ours: per_second(ours),
        theirs: per_second(bare),
        goal: Goal::ratio(0.9),
    }]
}
