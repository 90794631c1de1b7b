//! Regression tests of `change`; each test explains the bug it guards against.

use crate::support;

use sluicegate_engine::Limit;
use sluicegate_engine::clock::ManualClock;
use support::*;

/// A charge beyond the limit is owed until it is refilled. The change carried over only the remaining amount,
/// zero in either case, and dropped the debt.
#[test]
fn a_debt_is_not_forgiven_by_a_change() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 10)]);
    limiter.enter(10).unwrap().settle(100);
    assert_eq!(limiter.check().wait(), Some(secs(91)));
    limiter.change([bucket("1/s", 11)]).unwrap();
    clock.advance(secs(80));
    assert!(!limiter.check().is_allowed(), "the rate did not change, but ninety seconds of debt are lost");
}

/// The same for a paced rate, which admits any cost and delays the next caller.
#[test]
fn a_paced_limit_does_not_restart_on_a_change() {
    let clock = ManualClock::new();
    let warm = |per: &str| Limit::warm_up(rate(per), secs(4), 3).unwrap();
    let limiter = limiter(&clock, [warm("2/s")]);
    assert!(limiter.check_cost(1_000).is_allowed());
    assert!(limiter.check().wait().unwrap() > secs(500));
    limiter.change([warm("3/s")]).unwrap();
    assert!(limiter.check().wait().unwrap() > secs(300), "{:?}", limiter.check().wait());
}

/// A bucket of two thousand with a thousand remaining was reduced to a thousand, which made it full. "Full" was
/// taken for "never used" on growing again: two thousand more at the same instant. The remaining amount must be
/// carried over instead of the full new limit.
#[test]
fn shrinking_and_growing_gives_no_new_burst() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/h", 2_000)]);
    assert!(limiter.check_cost(1_000).is_allowed());
    limiter.change([bucket("1/h", 1_000)]).unwrap();
    limiter.change([bucket("1/h", 2_000)]).unwrap();
    let left = limiter.status()[0].remaining;
    assert!(left <= 1_000, "{left} of 2000 remain after 1000 were taken");
}
