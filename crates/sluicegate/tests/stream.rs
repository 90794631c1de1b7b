//! Limited streams: exact timing, no lost items, no tokens held without need.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::stream::{self, FusedStream};
use futures_util::{FutureExt, Stream, StreamExt};
use sluicegate::clock::ManualClock;
use sluicegate::stream::{InFlight, StreamRateLimitExt};
use sluicegate::{KeyedLimiter, Limit, Limiter, Rate};

fn limiter(clock: &ManualClock, limit: Limit) -> Limiter {
    Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap()
}

fn bucket(rate: &str, burst: u64) -> Limit {
    Limit::token_bucket(rate.parse().unwrap(), burst).unwrap()
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Counts how often it was rung.
#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl CountingWaker {
    fn wake_count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll_with<S: Stream + Unpin>(stream: &mut S, waker: &Arc<CountingWaker>) -> Poll<Option<S::Item>> {
    stream.poll_next_unpin(&mut Context::from_waker(&Waker::from(Arc::clone(waker))))
}

/// What it yields without having to wait.
fn drain_ready<S: Stream + Unpin>(stream: &mut S) -> Vec<S::Item> {
    std::iter::from_fn(|| stream.next().now_or_never().flatten()).collect()
}

/// A source with items pushed by the test. A push wakes the last poller.
#[derive(Clone, Default)]
struct ManualSource(Arc<Mutex<(VecDeque<u32>, Option<Waker>)>>);

impl ManualSource {
    fn feed(&self, items: impl IntoIterator<Item = u32>) {
        let mut inside = self.0.lock().unwrap();
        inside.0.extend(items);
        let waker = inside.1.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn remaining(&self) -> Vec<u32> {
        self.0.lock().unwrap().0.iter().copied().collect()
    }
}

impl Stream for ManualSource {
    type Item = u32;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<u32>> {
        let mut inside = self.0.lock().unwrap();
        let Some(item) = inside.0.pop_front() else {
            inside.1 = Some(context.waker().clone());
            return Poll::Pending;
        };
        drop(inside);
        assert_ne!(item, u32::MAX, "the source is broken");
        Poll::Ready(Some(item))
    }
}

#[test]
fn each_item_is_yielded_at_the_exact_nanosecond() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, Limit::leaky_bucket("10/s".parse().unwrap(), 1).unwrap());
    let mut paced = stream::iter(0..5).rate_limit(&limiter);
    assert_eq!(drain_ready(&mut paced), [0]);
    for item in 1..5 {
        clock.advance(ms(100) - Duration::from_nanos(1));
        assert!(drain_ready(&mut paced).is_empty());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(drain_ready(&mut paced), [item]);
    }
    assert_eq!(paced.next().now_or_never(), Some(None));
}

#[test]
fn no_token_is_spent_without_an_item_and_at_most_one_item_is_held() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 2));
    let (source, bell) = (ManualSource::default(), Arc::default());
    let mut paced = source.clone().rate_limit(&limiter);
    assert!(poll_with(&mut paced, &bell).is_pending());
    assert_eq!(limiter.status()[0].remaining, 2);
    source.feed(1..=6);
    assert_eq!(bell.wake_count(), 1);
    assert_eq!(drain_ready(&mut paced), [1, 2]);
    assert_eq!(source.remaining(), [4, 5, 6], "one is held, the others are still the source's");
}

#[test]
fn admission_wakes_the_last_polling_task_and_the_source_wakes_none() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 1));
    let source = ManualSource::default();
    let mut paced = source.clone().rate_limit(&limiter);
    let [first, second]: [Arc<CountingWaker>; 2] = Default::default();
    source.feed([1, 2]);
    assert_eq!(poll_with(&mut paced, &first), Poll::Ready(Some(1)));
    assert!(poll_with(&mut paced, &first).is_pending());
    assert!(poll_with(&mut paced, &second).is_pending());
    source.feed([3]);
    assert_eq!((first.wake_count(), second.wake_count()), (0, 0));
    clock.advance(ms(100));
    assert_eq!((first.wake_count(), second.wake_count()), (0, 1));
    assert_eq!(poll_with(&mut paced, &second), Poll::Ready(Some(2)));
    assert!(poll_with(&mut paced, &second).is_pending());
    clock.advance(ms(100));
    assert_eq!(poll_with(&mut paced, &second), Poll::Ready(Some(3)));
    assert_eq!(clock.pending_timers(), 0);
}

#[test]
fn streams_and_callers_share_a_limiter_fifo() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 1));
    limiter.check();
    let mut left = stream::repeat("left").rate_limit(&limiter);
    let mut right = stream::repeat("right").rate_limit(&limiter);
    let mut order = Vec::new();
    for round in 0..6 {
        // The polling order changes; the first in the queue is always served first.
        let mut polled = [&mut right, &mut left];
        if round % 3 == 2 {
            polled.reverse();
        }
        order.extend(polled.into_iter().filter_map(|stream| stream.next().now_or_never().flatten()));
        clock.advance(ms(100));
    }
    assert_eq!(order, ["right", "left", "right", "left", "right"]);
    assert!(!limiter.check().is_allowed(), "no call overtakes the queue");
}

#[test]
fn prefetched_tokens_are_returned_when_the_source_is_pending() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("1/m", 100_000));
    let source = ManualSource::default();
    let mut paced = source.clone().rate_limit(&limiter);
    source.feed(0..3_000);
    assert_eq!(drain_ready(&mut paced).len(), 3_000);
    assert_eq!(limiter.status()[0].remaining, 97_000, "the source is pending");
    source.feed(0..1_000);
    for _ in 0..1_000 {
        assert!(poll_with(&mut paced, &Arc::default()).is_ready());
    }
    let ahead = 96_000 - limiter.status()[0].remaining;
    assert!((1..=12_500).contains(&ahead), "{ahead} are ahead");
    drop(paced);
    assert_eq!(limiter.status()[0].remaining, 96_000);
    assert_eq!(drain_ready(&mut stream::iter(0..50).rate_limit(limiter.clone())).len(), 50);
    assert_eq!(limiter.status()[0].remaining, 95_950, "the source has ended");
}

#[test]
fn a_dropped_stream_leaves_the_queue_and_its_item_is_recoverable() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 1));
    let mut first = stream::iter(1..=3).rate_limit(&limiter);
    let mut second = stream::repeat(10).rate_limit(&limiter);
    assert_eq!(drain_ready(&mut first), [1]);
    assert!(drain_ready(&mut second).is_empty());
    assert_eq!((limiter.waiting(), first.size_hint(), second.size_hint()), (2, (2, Some(2)), (usize::MAX, None)));
    let (mut rest, held) = first.into_parts();
    assert_eq!((held, drain_ready(&mut rest), limiter.waiting()), (Some(2), vec![3], 1));
    clock.advance(ms(100));
    assert_eq!(drain_ready(&mut second), [10]);
    drop(second);
    assert_eq!((limiter.waiting(), clock.pending_timers()), (0, 0));
}

#[test]
fn a_full_queue_loses_no_item() {
    let clock = ManualClock::new();
    let limit = Limit::leaky_bucket("10/s".parse().unwrap(), 1).unwrap();
    let limiter = Limiter::builder().limit(limit).max_waiting(1).clock(clock.clone()).build().unwrap();
    let mut streams: Vec<_> = (0..4).map(|_| stream::iter(0..3).rate_limit(&limiter)).collect();
    let mut yielded = Vec::new();
    for _ in 0..12 {
        yielded.push(streams.iter_mut().flat_map(drain_ready).count());
        clock.advance(ms(100));
    }
    assert_eq!(yielded, [1; 12]);
}

#[test]
fn an_ended_source_is_not_polled_again() {
    let mut polls = 0;
    let once = stream::poll_fn(move |_| {
        polls += 1;
        assert!(polls <= 2, "polled after its end");
        Poll::Ready((polls == 1).then_some(polls))
    });
    let mut paced = once.rate_limit(Limiter::new(bucket("1/s", 1)));
    assert!(!paced.is_terminated());
    for expected in [Some(1), None, None] {
        assert_eq!(paced.next().now_or_never(), Some(expected));
    }
    assert!(paced.is_terminated());
    assert_eq!(paced.size_hint(), (0, Some(0)));
}

#[test]
fn a_stream_continues_after_its_source_panicked() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("1/h", 100));
    let source = ManualSource::default();
    let mut paced = source.clone().rate_limit(&limiter);
    source.feed([1, u32::MAX, 2]);
    assert_eq!(paced.next().now_or_never(), Some(Some(1)));
    assert!(catch_unwind(AssertUnwindSafe(|| paced.next().now_or_never())).is_err());
    assert_eq!(drain_ready(&mut paced), [2]);
    assert_eq!(limiter.status()[0].remaining, 98);
}

#[test]
fn keys_are_limited_separately_and_items_stay_in_order() {
    let clock = ManualClock::new();
    let per_key: KeyedLimiter<str> =
        Limiter::builder().limit(bucket("10/s", 1)).clock(clock.clone()).build_keyed(100).unwrap();
    let mut paced = stream::iter(["a1", "b1", "a2", "c1", "b2"]).rate_limit_by_key(&per_key, |job| &job[..1]);
    assert_eq!(drain_ready(&mut paced), ["a1", "b1"]);
    assert!(format!("{paced:?}").contains("waiting: true"));
    clock.advance(ms(100));
    assert_eq!(drain_ready(&mut paced), ["a2", "c1", "b2"]);
    assert!(paced.is_terminated());
}

#[test]
fn costs_are_charged_and_oversized_items_are_returned_as_errors() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 10));
    let mut paced = stream::iter([0, 4, 6, 5, 11, 10]).rate_limit_by_cost(&limiter, |cost| *cost);
    assert_eq!(drain_ready(&mut paced), [Ok(0), Ok(4), Ok(6)]);
    clock.advance(ms(500));
    let yielded = drain_ready(&mut paced);
    assert_eq!((yielded.len(), yielded[0]), (2, Ok(5)));
    let too_large = yielded[1].unwrap_err();
    assert_eq!((too_large.item, too_large.cost), (11, 11));
    assert_eq!(too_large.to_string(), "the cost 11 of an item exceeds the limit: split the item or raise the limit");
    assert_eq!(paced.into_parts().1, Some(10));
}

#[test]
fn in_flight_limit_is_never_exceeded() {
    let values = |items: &[InFlight<i32>]| items.iter().map(|item| **item).collect::<Vec<_>>();
    let mut limited = stream::iter(0..6).limit_in_flight(2).unwrap();
    let mut handled = drain_ready(&mut limited);
    assert_eq!(values(&handled), [0, 1]);
    // After `into_parts`, the permit alone keeps the item in flight.
    let (item, permit) = handled.remove(0).into_parts();
    assert_eq!((item, drain_ready(&mut limited).len()), (0, 0));
    drop(permit);
    handled.extend(drain_ready(&mut limited));
    assert_eq!(values(&handled), [1, 2]);
    // A handler that panics.
    let item = handled.remove(0);
    assert!(catch_unwind(AssertUnwindSafe(move || panic!("while handling {}", *item))).is_err());
    handled.extend(drain_ready(&mut limited));
    assert_eq!(values(&handled), [2, 3]);
    // Changed on the way.
    let changed: Vec<InFlight<String>> = handled.into_iter().map(|item| item.map(|n| n.to_string())).collect();
    assert_eq!((changed.len(), drain_ready(&mut limited).len()), (2, 0));
    drop(changed);
    assert_eq!(drain_ready(&mut limited).len(), 2);
    assert!(stream::iter(0..6).limit_in_flight(0).is_err());
}

#[test]
fn streams_share_an_in_flight_limit_and_a_release_wakes_a_waiter() {
    let together = Limiter::new(Limit::concurrency(1).unwrap());
    let mut first = stream::repeat(1).limit_in_flight_by(&together);
    let mut second = stream::repeat(10).limit_in_flight_by(&together);
    let bell = Arc::default();
    let one = first.next().now_or_never().flatten().unwrap();
    assert!(poll_with(&mut second, &bell).is_pending());
    drop(one);
    assert_eq!(bell.wake_count(), 1);
    assert!(first.next().now_or_never().is_none(), "the second was there before");
    let ten = second.next().now_or_never().flatten().unwrap();
    drop((first, ten));
    assert_eq!((together.waiting(), together.status()[0].remaining), (0, 1));
}

#[tokio::test]
async fn rate_and_in_flight_limits_combine_under_a_real_executor() {
    let rate = Limiter::new(Limit::token_bucket(Rate::per_second(100_000).unwrap(), 10).unwrap());
    let (now, max, handled) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let begun = std::time::Instant::now();
    let limited = stream::iter(0..500).limit_in_flight(4).unwrap().rate_limit(&rate);
    limited
        .for_each_concurrent(None, async |item| {
            max.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            handled.lock().unwrap().push(*item);
        })
        .await;
    let mut handled = handled.into_inner().unwrap();
    handled.sort_unstable();
    assert_eq!(handled, (0..500).collect::<Vec<_>>());
    assert!(max.load(Ordering::SeqCst) <= 4);
    assert!(begun.elapsed() >= Duration::from_micros(4_500), "490 had to wait for their tokens");
}

#[tokio::test]
async fn a_cancelled_wait_loses_no_item() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 1));
    let mut paced = stream::iter(1..=2).rate_limit(&limiter);
    assert_eq!(paced.next().await, Some(1));
    for _ in 0..3 {
        // The future of `next` is dropped at its await; the item stays with the stream.
        assert!(paced.next().now_or_never().is_none());
    }
    clock.advance(ms(100));
    assert_eq!(paced.next().await, Some(2));
}

#[test]
fn streams_can_be_sent_to_other_threads() {
    fn is_send<T: Send>(_: &T) {}
    let limiter = Limiter::new(bucket("1/s", 1));
    is_send(&stream::iter([1]).rate_limit(&limiter));
    is_send(&stream::iter([1]).rate_limit_by_cost(&limiter, |_| 1));
    let limited = stream::iter([1]).limit_in_flight(1).unwrap();
    is_send(&limited);
    let debug = format!("{limited:?}");
    assert!(debug.starts_with("LimitInFlight") && debug.contains("waiting: false"), "{debug}");
}
