//! Items through `paced` beside the bare stream.

use std::hint::black_box;
use std::time::Instant;

use futures_channel::mpsc;
use futures_util::SinkExt;
use futures_util::stream::{self, Stream, StreamExt};
use sluicegate::stream::StreamLimits;
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

/// Items in the channel at most.
const CHANNEL: usize = 1_024;

/// The items of another task, as a consumer has them: through a channel.
fn sent(items: u64) -> impl Stream<Item = u64> {
    let (mut sender, receiver) = mpsc::channel(CHANNEL);
    let send = async move {
        for item in 0..items {
            if sender.send(item).await.is_err() {
                return;
            }
        }
    };
    // Both sides take turns on this thread, so that no other core's speed is measured.
    stream::select(receiver, stream::once(send).filter_map(|()| std::future::ready(None)))
}

pub(crate) fn paced(scale: Scale) -> Vec<Row> {
    let bucket = Limit::token_bucket(Rate::per_second(1_000_000_000).expect("a rate"), 1_000_000_000);
    let limiter = Limiter::new(bucket.expect("a bucket"));
    let row = |peer, goal, [ours, bare]: [f64; 2]| {
        let per_second = |nanos: f64| 1e9 / nanos;
        let unit = Unit::PerSecond;
        Row { case: "paced-stream", peer, unit, ours: per_second(ours), theirs: per_second(bare), goal }
    };
    let items = u64::from(scale.size(3_000_000));
    let through_channel = best_of(
        scale.rounds(),
        [&mut || drained(items, sent(items).paced(&limiter)), &mut || drained(items, sent(items))],
    );
    let items = u64::from(scale.size(20_000_000));
    let in_registers = best_of(
        scale.rounds(),
        [&mut || drained(items, stream::iter(0..items).paced(&limiter)), &mut || {
            drained(items, stream::iter(0..items))
        }],
    );
    vec![
        row("the bare stream, of a channel", Goal::ratio(0.9), through_channel),
        row("the bare stream, a counter", None, in_registers),
    ]
}
