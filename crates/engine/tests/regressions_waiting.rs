//! Faults of `waiting` that were found once: each test explains the one it guards against.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{KeyedLimiter, Limiter, Pass, Reason};
use support::*;

/// The line remembers when its last caller leaves. If somebody leaves late, because its executor was
/// busy, everybody behind leaves later too, but the memory stays: newcomers are promised too much.
#[test]
fn a_caller_who_leaves_late_moves_the_promises_of_everybody_behind() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let mut line = [waiting(limiter.acquire()), waiting(limiter.acquire())];
    assert_eq!(advance(&clock, ms(1_500), &mut line).len(), 1, "the first leaves half a second late");
    // The second now leaves a second after that, and a newcomer another second later.
    assert_eq!(clock.next_alarm().unwrap() - clock.now(), secs(1));
    assert_eq!(limiter.check().wait(), Some(secs(2)));
    let hopeless = Task::new(limiter.acquire().within(ms(1_800))).poll();
    assert!(hopeless.is_ready(), "its turn comes after its deadline, and that is known");
}

/// Keys without a slot of their own count their permits together. A permit that one of them gives back
/// can be what another waits for; but only the line of the first is woken.
#[test]
fn a_permit_given_back_in_the_strict_slot_wakes_whoever_shares_it() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u32> = Limiter::builder().limit(permits(1)).clock(clock.clone()).build_keyed(1).unwrap();
    let slots: Vec<Pass> = (0..19).map(|key| limiter.enter(&key, 1).unwrap()).collect();
    let shared = limiter.enter(&100, 1).unwrap();
    let mut other = waiting(limiter.acquire(&101));
    drop(shared);
    assert!(other.poll_if_woken().is_some_and(|pass| pass.is_ok()), "the permit is free and nobody tells");
    drop(slots);
}

/// A rate says ten seconds, a permit is out as well. The permit hides the rate, so a caller whose turn
/// cannot come within a second is left waiting for it.
#[test]
fn a_wait_that_is_known_is_not_hidden_by_one_that_is_not() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/10s", 1), permits(1)]);
    let _held = limiter.enter(1).unwrap();
    let mut caller = Task::new(limiter.acquire().within(secs(1)));
    match caller.poll() {
        std::task::Poll::Ready(Err(no)) => assert_eq!(no.reason, Reason::Deadline),
        other => panic!("there is no hope for ten seconds, yet {other:?}"),
    }
}

/// A leaky bucket bounds its line. While a permit is out nobody can tell when the line moves, and the
/// bound is not asked at all.
#[test]
fn a_leaky_buckets_line_is_bounded_while_permits_are_out_too() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [leaky("5/s", 3), permits(1)]);
    let _held = limiter.enter(1).unwrap();
    let line: Vec<_> = (0..10)
        .map(|_| Task::new(limiter.acquire()))
        .filter_map(|mut task| task.poll().is_pending().then_some(task))
        .collect();
    assert!(line.len() <= 3, "{} wait in a line of three", line.len());
}

/// Whoever gives up behind others is told a wait in which it stands behind itself.
#[test]
fn who_gives_up_is_told_its_wait_without_itself_in_line() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    drop(limiter.enter(1).unwrap());
    let _busy = waiting(limiter.acquire());
    let mut behind = waiting(limiter.acquire().within(secs(2)));
    // The first in line is woken at 1 s, but its executor is busy.
    clock.advance(secs(2) + NANO);
    let refused = behind.poll_if_woken().unwrap().unwrap_err();
    assert_eq!(refused.reason, Reason::Deadline);
    // The first can leave now, so whoever comes next can a second later.
    assert_eq!(refused.retry_after(), Some(secs(1)));
}
