//! Items through `rate_limit`, compared with the bare stream: `paced-stream`.

use std::hint::black_box;
use std::time::Instant;

use futures_channel::mpsc;
use futures_util::SinkExt;
use futures_util::stream::{self, Stream, StreamExt};
use sluicegate::stream::StreamRateLimitExt;
use sluicegate::{Limit, Limiter, Rate};

use crate::report::{Goal, Row, Unit};
use crate::runner::{Scale, best_of};

/// Drains a stream on this thread and returns nanoseconds per item.
fn nanos_per_item(items: u64, stream: impl Stream<Item = u64>) -> f64 {
    let started = Instant::now();
    let work = stream.fold(0_u64, async |sum, item| black_box(sum.wrapping_mul(31).wrapping_add(item)));
    let sum = futures_executor::block_on(work);
    let elapsed = started.elapsed();
    black_box(sum);
    elapsed.as_nanos() as f64 / items as f64
}

/// Maximum number of items in the channel.
const CHANNEL_CAPACITY: usize = 1_024;

/// Items of another task through a channel, as in a typical consumer.
fn channel_source(items: u64) -> impl Stream<Item = u64> {
    let (mut sender, receiver) = mpsc::channel(CHANNEL_CAPACITY);
    let send = async move {
        for item in 0..items {
            if sender.send(item).await.is_err() {
                return;
            }
        }
    };
    // Sender and receiver share this thread, so that no communication between cores is measured.
    stream::select(receiver, stream::once(send).filter_map(|()| std::future::ready(None)))
}

pub(crate) fn rate_limited(scale: Scale) -> Vec<Row> {
    let bucket = Limit::token_bucket(Rate::per_second(1_000_000_000).expect("valid rate"), 1_000_000_000);
    let limiter = Limiter::new(bucket.expect("valid bucket"));
    let row = |peer, goal, [ours, bare]: [f64; 2]| {
        let per_second = |nanos: f64| 1e9 / nanos;
        let unit = Unit::PerSecond;
        Row { case: "paced-stream", peer, unit, ours: per_second(ours), theirs: per_second(bare), goal }
    };
    let items = u64::from(scale.size(3_000_000));
    let through_channel = best_of(
        scale.rounds(),
        [&mut || nanos_per_item(items, channel_source(items).rate_limit(&limiter)), &mut || {
            nanos_per_item(items, channel_source(items))
        }],
    );
    let items = u64::from(scale.size(20_000_000));
    let in_registers = best_of(
        scale.rounds(),
        [&mut || nanos_per_item(items, stream::iter(0..items).rate_limit(&limiter)), &mut || {
            nanos_per_item(items, stream::iter(0..items))
        }],
    );
    vec![
        row("bare stream, from a channel", Goal::ratio(0.9), through_channel),
        row("bare stream, from a counter", None, in_registers),
    ]
}
