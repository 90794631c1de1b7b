//! Regression tests of algorithm bugs, each in the fewest steps.

use std::time::Duration;

use sluicegate_engine::algorithm::{Alignment, Check};
use sluicegate_engine::{Limit, LimitError, Rate};

use super::subject::Subject;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const WINDOW: Duration = Duration::from_secs(1);

/// Ten tokens, one per millisecond.
fn bucket() -> Limit {
    Limit::token_bucket("1000/s".parse().unwrap(), 10).unwrap()
}

fn reservable() -> Limit {
    match bucket() {
        Limit::TokenBucket(bucket) => Limit::TokenBucket(bucket.reservable()),
        other => other,
    }
}

/// The refund was computed from the apparent elapsed time; the clock had been ahead in between. It returned five
/// tokens that the caller at 9 ms had already used.
#[test]
fn a_refund_after_a_clock_step_back_is_not_doubled() {
    let mut subject = Subject::new(bucket());
    let given_back = subject.commit(0, 5, false);
    subject.commit(9 * MILLI, 1, false);
    subject.settle(given_back, 0, 0);
    assert_eq!(subject.remaining(9 * MILLI), 9);
}

/// While 8 of 10 are reserved, 3 never fit, for any wait; 2 fit once refilled.
#[test]
fn a_cost_blocked_by_reservations_has_no_retry_after() {
    let mut subject = Subject::new(reservable());
    subject.commit(0, 8, true);
    subject.commit(0, 2, false);
    assert_eq!(subject.check(0, 3), Check::Held);
    assert_eq!(subject.check(3_600 * SECOND, 3), Check::Held);
    assert_eq!(subject.check(0, 2), Check::NotBefore(2 * MILLI));
    assert_eq!(subject.check(2 * MILLI, 2), Check::Now);
}

/// Settling the reservation moved the arrival time back to the value after the other charge. It was taken for
/// unchanged, and the refund of that charge also returned the tokens spent by the reservation.
#[test]
fn an_equal_arrival_time_does_not_prove_no_change() {
    let mut subject = Subject::new(reservable());
    let reserved = subject.commit(0, 5, true);
    let taken = subject.commit(0, 5, false);
    subject.settle(reserved, 2, 8 * MILLI);
    let before = subject.remaining(8 * MILLI);
    subject.settle(taken, 0, 8 * MILLI);
    assert_eq!((before, subject.remaining(8 * MILLI)), (8, 8));
}

/// The merged state lost the other key's reservations, and a refund reduced the other key's debt.
#[test]
fn merged_buckets_remember_both_keys_reservations() {
    let (mut a, mut b) = (Subject::new(reservable()), Subject::new(reservable()));
    let all = a.commit(0, 10, true);
    let some = b.commit(0, 4, true);
    b.commit(0, 6, false);
    a.merge(&b);
    a.settle(all, 0, 0);
    assert_eq!(a.remaining(0), 0, "all of b is spent or reserved");
    assert_eq!(a.remaining(SECOND), 6, "four of b are still reserved");
    a.settle(some, 0, SECOND);
    assert_eq!(a.remaining(SECOND), 10);
}

/// In 2062 the arrival time saturated, could not advance, and everything was admitted.
#[test]
fn buckets_stay_closed_at_the_last_tick() {
    for limit in [bucket(), reservable(), Limit::leaky_bucket("1000/s".parse().unwrap(), 10).unwrap()] {
        for at in [1 << 60, u64::MAX / 2, u64::MAX] {
            let mut subject = Subject::new(limit);
            let admitted = (0..100).filter(|_| super::subject::admitted(subject.take(at, 1))).count();
            assert_eq!(admitted, 10, "{limit} at {at}");
        }
    }
}

/// A sum that saturated at the limit itself seemed to fit.
#[test]
fn the_maximum_limit_is_enforced() {
    for limit in [
        Limit::fixed_window(u64::MAX, WINDOW, Alignment::Epoch).unwrap(),
        Limit::concurrency(u64::MAX).unwrap(),
        Limit::sliding_window(u64::MAX, WINDOW, 10).unwrap(),
        Limit::interpolated_window(u64::MAX, WINDOW).unwrap(),
    ] {
        let mut subject = Subject::new(limit);
        subject.commit(SECOND, u64::MAX - 1, false);
        assert!(!subject.admits(SECOND, 2), "{limit}");
        assert!(subject.admits(SECOND, 1), "{limit}");
    }
}

/// Three of five entries were pushed out by a charge that did not fit; a refund of one made room.
#[test]
fn an_overdrawn_log_ignores_refunds() {
    let mut subject = Subject::new(Limit::sliding_log(5, WINDOW).unwrap());
    let taken: Vec<_> = (0..5).map(|_| subject.commit(7, 1, false)).collect();
    subject.settle(taken[0], 4, 8);
    subject.settle(taken[1], 0, 8);
    assert_eq!(subject.remaining(8), 0, "seven of five were spent");
    assert_eq!(subject.remaining(8 + SECOND + 1), 5);
}

/// The two entries at 10 s were pushed out by the two at 20 s. Those were refunded, the clock stepped back, and
/// the log no longer counted the first two.
#[test]
fn a_refund_does_not_revive_expired_entries() {
    let mut subject = Subject::new(Limit::sliding_log(2, WINDOW).unwrap());
    subject.commit(10 * SECOND, 2, false);
    let later = subject.commit(20 * SECOND, 2, false);
    subject.settle(later, 0, 20 * SECOND);
    assert!(!subject.admits(10 * SECOND, 1));
    assert_eq!(subject.remaining(20 * SECOND), 2);
}

/// Two charges of 2^64-1 saturate in 64 bits like one; the wait covered only the expiry of the first.
#[test]
fn a_sliding_window_waits_for_every_blocking_cell() {
    let mut subject = Subject::new(Limit::sliding_window(1 << 40, WINDOW, 10).unwrap());
    for at in [0, SECOND / 2] {
        let taken = subject.commit(at, 1, false);
        subject.settle(taken, u64::MAX, at);
    }
    let Check::NotBefore(wait) = subject.check(SECOND / 2, 1) else { panic!("it is overdrawn") };
    assert!(!subject.admits(SECOND / 2 + wait - 1, 1));
    assert!(subject.admits(SECOND / 2 + wait, 1));
}

/// Rounded up to whole nanoseconds, a thousand cells of a 1001 ns window are 2 ns each: together 2 us.
#[test]
fn cells_of_a_tiny_window_do_not_double_it() {
    let mut subject = Subject::new(Limit::sliding_window(1, Duration::from_nanos(1_001), 1_000).unwrap());
    subject.commit(0, 1, false);
    assert!(!subject.admits(1_000, 1));
    assert!(subject.admits(1_004, 1));
}

/// Guava's large acquire at its maximum: the resulting time overflows.
#[test]
fn a_warm_up_survives_the_largest_cost() {
    let rate = Rate::new(1, Duration::from_secs(86_400 * 30)).unwrap();
    let mut subject = Subject::new(Limit::warm_up(rate, Duration::from_secs(86_400 * 365), 3).unwrap());
    let taken = subject.commit(SECOND, u64::MAX, false);
    assert!(!subject.admits(u64::MAX - 1, 1));
    subject.settle(taken, 1, SECOND);
    assert!(!subject.admits(u64::MAX - 1, 1), "the charged amount is unknown");
}

#[test]
fn an_excessive_warm_up_is_not_reported_as_zero() {
    let long = Duration::from_secs(11 * 365 * 86_400);
    let error = Limit::warm_up("1/s".parse().unwrap(), long, 3).unwrap_err();
    assert_eq!(error, LimitError::WindowTooLong { window: long });
}
