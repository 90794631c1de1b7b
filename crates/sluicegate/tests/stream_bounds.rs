//! The bounds of the limits hold for the items that limited streams yield.

use std::collections::VecDeque;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt};
use sluicegate::algorithm::Alignment;
use sluicegate::clock::{Clock, ManualClock};
use sluicegate::stream::StreamRateLimitExt;
use sluicegate::{Limit, Limiter, Rate};
use sluicegate_testkit::bound::{self, AdmissionEvent, ExactRate, Violation};
use sluicegate_testkit::random::SplitMix64;

const WINDOW: u64 = 1_000_000_000;
const STREAMS: usize = 3;

/// A source that now and then has nothing to give for a while.
fn intermittent_source(seed: u64, count: usize) -> BoxStream<'static, u64> {
    let mut dice = SplitMix64::new(seed);
    let mut costs: VecDeque<u64> = (0..count).map(|_| 1 + dice.below(3)).collect();
    let mut next = move || if dice.below(20) == 0 { Poll::Pending } else { Poll::Ready(costs.pop_front()) };
    stream::poll_fn(move |_| next()).boxed()
}

/// Runs several streams and a caller on one limiter. Returns the admitted items in order.
fn history(seed: u64, limit: Limit, with_cost: bool, with_caller: bool) -> Vec<AdmissionEvent> {
    let mut dice = SplitMix64::new(seed);
    let clock = ManualClock::new();
    let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap();
    let count = 40 + dice.below(300) as usize;
    let paced = |index| {
        let source = intermittent_source(seed * STREAMS as u64 + index, count);
        match with_cost {
            true => source.rate_limit_by_cost(&limiter, |cost| *cost).map(|item| item.expect("small enough")).boxed(),
            false => source.rate_limit(&limiter).map(|_| 1).boxed(),
        }
    };
    let mut streams: Vec<_> = (0..STREAMS as u64).map(paced).collect();
    let mut out = Vec::new();
    let (mut yielded, mut ended) = (0, [false; STREAMS]);
    while ended.contains(&false) {
        let (which, at) = (dice.below(STREAMS as u64) as usize, clock.now().as_nanos());
        match dice.below(10) {
            0 => {
                // Mostly short times, sometimes long enough for a full refill.
                let max = if dice.below(10) == 0 { 50 * WINDOW } else { WINDOW / 20 };
                clock.advance(Duration::from_nanos(dice.below(max)));
            }
            1 if with_caller => out.extend(limiter.check().is_allowed().then_some(AdmissionEvent { at, cost: 1 })),
            _ => match streams[which].next().now_or_never() {
                Some(Some(cost)) => {
                    out.push(AdmissionEvent { at, cost });
                    yielded += 1;
                }
                Some(None) => ended[which] = true,
                None => {}
            },
        }
    }
    assert_eq!(yielded, STREAMS * count, "seed {seed}: nothing is lost");
    assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0), "seed {seed}: the queue is empty");
    out
}

/// Tries a promise about limits of random size, with items that cost one and items that cost more.
fn check_bound(
    with_caller: bool,
    size: impl Fn(&mut SplitMix64) -> u64,
    limit: impl Fn(u64) -> Limit,
    promise: impl Fn(&[AdmissionEvent], u64) -> Result<(), Violation>,
) {
    for seed in 0..100 {
        let size = size(&mut SplitMix64::new(!seed));
        for with_cost in [false, true] {
            let out = history(seed, limit(size), with_cost, with_caller);
            promise(&out, size).unwrap_or_else(|broken| panic!("seed {seed}, size {size}: {broken}"));
        }
    }
}

fn small_size(dice: &mut SplitMix64) -> u64 {
    5 + dice.below(60)
}

#[test]
fn token_buckets() {
    // From those that give nothing ahead to those that give a lot.
    let size = |dice: &mut SplitMix64| [3, 50, 400, 4_000][dice.below(4) as usize] + dice.below(10);
    let rate = Rate::per_second(100).unwrap();
    let limit = |burst| Limit::token_bucket(rate, burst).unwrap();
    check_bound(true, size, limit, |out, burst| bound::token_bucket(out, ExactRate::per_second(100), burst));
}

#[test]
fn leaky_buckets() {
    // A separate caller would be queued, and be counted later than it was admitted.
    let rate = Rate::per_second(100).unwrap();
    let limit = |queue| Limit::leaky_bucket(rate, queue).unwrap();
    check_bound(false, small_size, limit, |out, _| bound::departures(out, ExactRate::per_second(100)));
}

#[test]
fn sliding_windows() {
    let limit = |size| Limit::sliding_window(size, Duration::from_nanos(WINDOW), 10).unwrap();
    check_bound(true, small_size, limit, |out, size| bound::any_window(out, size, WINDOW));
}

#[test]
fn sliding_logs() {
    let limit = |size| Limit::sliding_log(size, Duration::from_nanos(WINDOW)).unwrap();
    check_bound(true, small_size, limit, |out, size| bound::any_window(out, size, WINDOW));
}

#[test]
fn fixed_windows() {
    let limit = |size| Limit::fixed_window(size, Duration::from_nanos(WINDOW), Alignment::FirstUse).unwrap();
    check_bound(true, small_size, limit, |out, size| bound::any_window(out, 2 * size, WINDOW));
}

#[test]
fn warm_up() {
    let rate = Rate::per_second(100).unwrap();
    let limit = |_| Limit::warm_up(rate, Duration::from_secs(1), 3).unwrap();
    check_bound(true, small_size, limit, |out, _| bound::departures(out, ExactRate::per_second(100)));
}
