//! Regression tests of wait queues; each test explains the bug it guards against.

use crate::support;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{KeyedLimiter, Limiter, Permit, RefusalReason};
use support::*;

/// The queue stores the departure time of its last caller. If a caller departs late because its executor was
/// busy, all callers behind depart later too, but the stored time stayed: new callers got too short a wait.
#[test]
fn a_late_cancellation_updates_the_waits_behind_it() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let mut waiters = [waiting(limiter.acquire()), waiting(limiter.acquire())];
    assert_eq!(advance(&clock, ms(1_500), &mut waiters).len(), 1, "the first departs half a second late");
    // The second now departs a second after that, and a new caller another second later.
    assert_eq!(clock.next_timer().unwrap() - clock.now(), secs(1));
    assert_eq!(limiter.check().wait(), Some(secs(2)));
    let late_waiter = Task::new(limiter.acquire().within(ms(1_800))).poll();
    assert!(late_waiter.is_ready(), "the expected admission is after the deadline");
}

/// Keys in the overflow slot count their permits together. A permit released by one of them can be the one
/// another key waits for; but only the queue of the first was woken.
#[test]
fn a_permit_released_in_the_overflow_slot_wakes_sharing_keys() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u32> = Limiter::builder().limit(permits(1)).clock(clock.clone()).build_keyed(1).unwrap();
    let slots: Vec<Permit> = (0..19).map(|key| limiter.enter(&key, 1).unwrap()).collect();
    let shared = limiter.enter(&100, 1).unwrap();
    let mut other = waiting(limiter.acquire(&101));
    drop(shared);
    assert!(other.poll_if_woken().is_some_and(|permit| permit.is_ok()), "the permit is free, but no wakeup was sent");
    drop(slots);
}

/// A rate requires ten seconds, and a permit is held as well. The permit hid the rate, so a caller that cannot be
/// admitted within a second was left in the queue.
#[test]
fn a_known_wait_is_not_hidden_by_an_unknown_one() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/10s", 1), permits(1)]);
    let _held = limiter.enter(1).unwrap();
    let mut caller = Task::new(limiter.acquire().within(secs(1)));
    match caller.poll() {
        std::task::Poll::Ready(Err(no)) => assert_eq!(no.reason, RefusalReason::Deadline),
        other => panic!("no admission is possible for ten seconds, but {other:?}"),
    }
}

/// A leaky bucket bounds its queue. While a permit is held, the departure times are unknown, and the bound was
/// not checked at all.
#[test]
fn a_leaky_bucket_queue_is_bounded_while_permits_are_held() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [leaky("5/s", 3), permits(1)]);
    let _held = limiter.enter(1).unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| Task::new(limiter.acquire()))
        .filter_map(|mut task| task.poll().is_pending().then_some(task))
        .collect();
    assert!(waiters.len() <= 3, "{} callers in a queue of three", waiters.len());
}

/// A caller that timed out behind others got a wait that included itself.
#[test]
fn a_timed_out_caller_gets_a_wait_without_itself() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let _busy = waiting(limiter.acquire());
    let mut behind = waiting(limiter.acquire().within(secs(2)));
    // The first in the queue is woken at 1 s, but its executor is busy.
    clock.advance(secs(2) + NANO);
    let refused = behind.poll_if_woken().unwrap().unwrap_err();
    assert_eq!(refused.reason, RefusalReason::Deadline);
    // The first can depart now, so the next caller can depart a second later.
    assert_eq!(refused.retry_after(), Some(secs(1)));
}
