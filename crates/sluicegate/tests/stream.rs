//! Streams held to limits: each item at its turn, none lost, nothing kept that others could use.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

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
use sluicegate::stream::{InFlight, StreamLimits};
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
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Bell {
    fn rung(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll_with<S: Stream + Unpin>(stream: &mut S, bell: &Arc<Bell>) -> Poll<Option<S::Item>> {
    stream.poll_next_unpin(&mut Context::from_waker(&Waker::from(Arc::clone(bell))))
}

/// What it yields without having to wait.
fn ready<S: Stream + Unpin>(stream: &mut S) -> Vec<S::Item> {
    std::iter::from_fn(|| stream.next().now_or_never().flatten()).collect()
}

/// A source fed by hand. Feeding it wakes whoever polled it last.
#[derive(Clone, Default)]
struct Fed(Arc<Mutex<(VecDeque<u32>, Option<Waker>)>>);

impl Fed {
    fn feed(&self, items: impl IntoIterator<Item = u32>) {
        let mut inside = self.0.lock().unwrap();
        inside.0.extend(items);
        let waker = inside.1.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn left(&self) -> Vec<u32> {
        self.0.lock().unwrap().0.iter().copied().collect()
    }
}

impl Stream for Fed {
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
fn each_item_leaves_at_the_nanosecond_of_its_turn() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, Limit::leaky_bucket("10/s".parse().unwrap(), 1).unwrap());
    let mut paced = stream::iter(0..5).paced(&limiter);
    assert_eq!(ready(&mut paced), [0]);
    for item in 1..5 {
        clock.advance(ms(100) - Duration::from_nanos(1));
        assert!(ready(&mut paced).is_empty());
        clock.advance(Duration::from_nanos(1));
        assert_eq!(ready(&mut paced), [item]);
    }
    assert_eq!(paced.next().now_or_never(), Some(None));
}

#[test]
fn no_token_is_spent_without_an_item_and_one_item_is_held_at_most() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 2));
    let (source, bell) = (Fed::default(), Arc::default());
    let mut paced = source.clone().paced(&limiter);
    assert!(poll_with(&mut paced, &bell).is_pending());
    assert_eq!(limiter.status()[0].remaining, 2);
    source.feed(1..=6);
    assert_eq!(bell.rung(), 1);
    assert_eq!(ready(&mut paced), [1, 2]);
    assert_eq!(source.left(), [4, 5, 6], "one is held, the others are still the source's");
}

#[test]
fn the_turn_wakes_the_task_that_polled_last_and_the_source_wakes_nobody_meanwhile() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 1));
    let source = Fed::default();
    let mut paced = source.clone().paced(&limiter);
    let [first, second]: [Arc<Bell>; 2] = Default::default();
    source.feed([1, 2]);
    assert_eq!(poll_with(&mut paced, &first), Poll::Ready(Some(1)));
    assert!(poll_with(&mut paced, &first).is_pending());
    assert!(poll_with(&mut paced, &second).is_pending());
    source.feed([3]);
    assert_eq!((first.rung(), second.rung()), (0, 0));
    clock.advance(ms(100));
    assert_eq!((first.rung(), second.rung()), (0, 1));
    assert_eq!(poll_with(&mut paced, &second), Poll::Ready(Some(2)));
    assert!(poll_with(&mut paced, &second).is_pending());
    clock.advance(ms(100));
    assert_eq!(poll_with(&mut paced, &second), Poll::Ready(Some(3)));
    assert_eq!(clock.alarms(), 0);
}

#[test]
fn streams_of_one_limiter_take_turns_and_so_do_other_callers() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 1));
    limiter.check();
    let mut left = stream::repeat("left").paced(&limiter);
    let mut right = stream::repeat("right").paced(&limiter);
    let mut order = Vec::new();
    for round in 0..6 {
        // Who is asked first changes; who comes first is who waited longest.
        let mut asked = [&mut right, &mut left];
        if round % 3 == 2 {
            asked.reverse();
        }
        order.extend(asked.into_iter().filter_map(|stream| stream.next().now_or_never().flatten()));
        clock.advance(ms(100));
    }
    assert_eq!(order, ["right", "left", "right", "left", "right"]);
    assert!(!limiter.check().is_allowed(), "nobody passes the line");
}

#[test]
fn tokens_taken_ahead_go_back_when_the_source_has_nothing_to_give() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("1/m", 100_000));
    let source = Fed::default();
    let mut paced = source.clone().paced(&limiter);
    source.feed(0..3_000);
    assert_eq!(ready(&mut paced).len(), 3_000);
    assert_eq!(limiter.status()[0].remaining, 97_000, "the source is pending");
    source.feed(0..1_000);
    for _ in 0..1_000 {
        assert!(poll_with(&mut paced, &Arc::default()).is_ready());
    }
    let ahead = 96_000 - limiter.status()[0].remaining;
    assert!((1..=12_500).contains(&ahead), "{ahead} are ahead");
    drop(paced);
    assert_eq!(limiter.status()[0].remaining, 96_000);
    assert_eq!(ready(&mut stream::iter(0..50).paced(limiter.clone())).len(), 50);
    assert_eq!(limiter.status()[0].remaining, 95_950, "the source has ended");
}

#[test]
fn a_dropped_stream_leaves_the_line_and_its_item_can_be_had() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 1));
    let mut first = stream::iter(1..=3).paced(&limiter);
    let mut second = stream::repeat(10).paced(&limiter);
    assert_eq!(ready(&mut first), [1]);
    assert!(ready(&mut second).is_empty());
    assert_eq!((limiter.waiting(), first.size_hint(), second.size_hint()), (2, (2, Some(2)), (usize::MAX, None)));
    let (mut rest, held) = first.into_parts();
    assert_eq!((held, ready(&mut rest), limiter.waiting()), (Some(2), vec![3], 1));
    clock.advance(ms(100));
    assert_eq!(ready(&mut second), [10]);
    drop(second);
    assert_eq!((limiter.waiting(), clock.alarms()), (0, 0));
}

#[test]
fn a_full_line_loses_no_item() {
    let clock = ManualClock::new();
    let limit = Limit::leaky_bucket("10/s".parse().unwrap(), 1).unwrap();
    let limiter = Limiter::builder().limit(limit).max_waiting(1).clock(clock.clone()).build().unwrap();
    let mut streams: Vec<_> = (0..4).map(|_| stream::iter(0..3).paced(&limiter)).collect();
    let mut yielded = Vec::new();
    for _ in 0..12 {
        yielded.push(streams.iter_mut().flat_map(ready).count());
        clock.advance(ms(100));
    }
    assert_eq!(yielded, [1; 12]);
}

#[test]
fn a_source_that_ended_is_not_asked_again() {
    let mut asked = 0;
    let once = stream::poll_fn(move |_| {
        asked += 1;
        assert!(asked <= 2, "asked after its end");
        Poll::Ready((asked == 1).then_some(asked))
    });
    let mut paced = once.paced(Limiter::new(bucket("1/s", 1)));
    assert!(!paced.is_terminated());
    for expected in [Some(1), None, None] {
        assert_eq!(paced.next().now_or_never(), Some(expected));
    }
    assert!(paced.is_terminated());
    assert_eq!(paced.size_hint(), (0, Some(0)));
}

#[test]
fn a_stream_goes_on_after_its_source_panicked() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("1/h", 100));
    let source = Fed::default();
    let mut paced = source.clone().paced(&limiter);
    source.feed([1, u32::MAX, 2]);
    assert_eq!(paced.next().now_or_never(), Some(Some(1)));
    assert!(catch_unwind(AssertUnwindSafe(|| paced.next().now_or_never())).is_err());
    assert_eq!(ready(&mut paced), [2]);
    assert_eq!(limiter.status()[0].remaining, 98);
}

#[test]
fn keys_are_paced_apart_and_items_stay_in_order() {
    let clock = ManualClock::new();
    let per_key: KeyedLimiter<str> =
        Limiter::builder().limit(bucket("10/s", 1)).clock(clock.clone()).build_keyed(100).unwrap();
    let mut paced = stream::iter(["a1", "b1", "a2", "c1", "b2"]).paced_by(&per_key, |job| &job[..1]);
    assert_eq!(ready(&mut paced), ["a1", "b1"]);
    assert!(format!("{paced:?}").contains("waiting: true"));
    clock.advance(ms(100));
    assert_eq!(ready(&mut paced), ["a2", "c1", "b2"]);
    assert!(paced.is_terminated());
}

#[test]
fn costs_are_charged_and_what_never_fits_is_handed_out_as_such() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 10));
    let mut paced = stream::iter([0, 4, 6, 5, 11, 10]).paced_with_cost(&limiter, |cost| *cost);
    assert_eq!(ready(&mut paced), [Ok(0), Ok(4), Ok(6)]);
    clock.advance(ms(500));
    let yielded = ready(&mut paced);
    assert_eq!((yielded.len(), yielded[0]), (2, Ok(5)));
    let too_large = yielded[1].unwrap_err();
    assert_eq!((too_large.item, too_large.cost), (11, 11));
    assert_eq!(too_large.to_string(), "an item costs 11, more than the limit itself: split it or raise the limit");
    assert_eq!(paced.into_parts().1, Some(10));
}

#[test]
fn so_many_are_in_flight_and_no_more() {
    let values = |items: &[InFlight<i32>]| items.iter().map(|item| **item).collect::<Vec<_>>();
    let mut limited = stream::iter(0..6).limit_in_flight(2).unwrap();
    let mut handled = ready(&mut limited);
    assert_eq!(values(&handled), [0, 1]);
    // Taken apart: the permit is what counts.
    let (item, permit) = handled.remove(0).into_parts();
    assert_eq!((item, ready(&mut limited).len()), (0, 0));
    drop(permit);
    handled.extend(ready(&mut limited));
    assert_eq!(values(&handled), [1, 2]);
    // A handler that panics.
    let item = handled.remove(0);
    assert!(catch_unwind(AssertUnwindSafe(move || panic!("while handling {}", *item))).is_err());
    handled.extend(ready(&mut limited));
    assert_eq!(values(&handled), [2, 3]);
    // Changed on the way.
    let changed: Vec<InFlight<String>> = handled.into_iter().map(|item| item.map(|n| n.to_string())).collect();
    assert_eq!((changed.len(), ready(&mut limited).len()), (2, 0));
    drop(changed);
    assert_eq!(ready(&mut limited).len(), 2);
    assert!(stream::iter(0..6).limit_in_flight(0).is_err());
}

#[test]
fn streams_can_share_what_is_in_flight_and_a_permit_wakes_who_waits_for_it() {
    let together = Limiter::new(Limit::concurrency(1).unwrap());
    let mut first = stream::repeat(1).limit_in_flight_by(&together);
    let mut second = stream::repeat(10).limit_in_flight_by(&together);
    let bell = Arc::default();
    let one = first.next().now_or_never().flatten().unwrap();
    assert!(poll_with(&mut second, &bell).is_pending());
    drop(one);
    assert_eq!(bell.rung(), 1);
    assert!(first.next().now_or_never().is_none(), "the second was there before");
    let ten = second.next().now_or_never().flatten().unwrap();
    drop((first, ten));
    assert_eq!((together.waiting(), together.status()[0].remaining), (0, 1));
}

#[tokio::test]
async fn rate_and_flight_together_under_a_real_executor() {
    let rate = Limiter::new(Limit::token_bucket(Rate::per_second(100_000).unwrap(), 10).unwrap());
    let (now, most, handled) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(Vec::new()));
    let begun = std::time::Instant::now();
    let limited = stream::iter(0..500).limit_in_flight(4).unwrap().paced(&rate);
    limited
        .for_each_concurrent(None, async |item| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            handled.lock().unwrap().push(*item);
        })
        .await;
    let mut handled = handled.into_inner().unwrap();
    handled.sort_unstable();
    assert_eq!(handled, (0..500).collect::<Vec<_>>());
    assert!(most.load(Ordering::SeqCst) <= 4);
    assert!(begun.elapsed() >= Duration::from_micros(4_500), "490 had to wait for their tokens");
}

#[tokio::test]
async fn a_cancelled_wait_loses_no_item() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, bucket("10/s", 1));
    let mut paced = stream::iter(1..=2).paced(&limiter);
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
    is_send(&stream::iter([1]).paced(&limiter));
    is_send(&stream::iter([1]).paced_with_cost(&limiter, |_| 1));
    let limited = stream::iter([1]).limit_in_flight(1).unwrap();
    is_send(&limited);
    let debug = format!("{limited:?}");
    assert!(debug.starts_with("LimitInFlight") && debug.contains("waiting: false"), "{debug}");
}
