//! Faults of `change` that were found once: each test explains the one it guards against.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use sluicegate_engine::Limit;
use sluicegate_engine::clock::ManualClock;
use support::*;

/// What was charged beyond the limit is owed for as long as it takes to refill. A change knows only what
/// is left, which is nothing either way, and the debt is gone.
#[test]
fn a_debt_is_not_forgiven_by_a_change() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 10)]);
    limiter.enter(10).unwrap().settle(100);
    assert_eq!(limiter.check().wait(), Some(secs(91)));
    limiter.change([bucket("1/s", 11)]).unwrap();
    clock.advance(secs(80));
    assert!(!limiter.check().is_allowed(), "the rate did not change, yet ninety seconds of debt are gone");
}

/// The same for a paced rate, where any cost is let in and the next caller pays for it.
#[test]
fn a_paced_rate_does_not_start_anew_by_a_change() {
    let clock = ManualClock::new();
    let warm = |per: &str| Limit::warm_up(rate(per), secs(4), 3).unwrap();
    let limiter = limiter(&clock, [warm("2/s")]);
    assert!(limiter.check_cost(1_000).is_allowed());
    assert!(limiter.check().wait().unwrap() > secs(500));
    limiter.change([warm("3/s")]).unwrap();
    assert!(limiter.check().wait().unwrap() > secs(300), "{:?}", limiter.check().wait());
}

/// A bucket of two thousand with a thousand left is made one of a thousand, which is then full, and "full"
/// is taken for "never used" when it grows again: two thousand more, at the same instant. If whoever is
/// full were carried over with what it has, and not with all the new limit has, nothing would be free.
#[test]
fn shrinking_and_growing_again_is_no_new_burst() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/h", 2_000)]);
    assert!(limiter.check_cost(1_000).is_allowed());
    limiter.change([bucket("1/h", 1_000)]).unwrap();
    limiter.change([bucket("1/h", 2_000)]).unwrap();
    let left = limiter.status()[0].remaining;
    assert!(left <= 1_000, "{left} are left of 2000 after 1000 were taken");
}
