//! Regression tests of permits; each test explains the bug it guards against.

use crate::support;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{KeyedLimiter, Limiter, Permit};
use support::*;

/// With only a concurrency limit, a cost of three takes three permits; next to a rate it takes one. A permit
/// taken under the first and released under the second released one of three.
#[test]
fn a_multi_permit_is_fully_released_after_a_rate_was_added() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(3)]);
    let permit = limiter.enter(3).unwrap();
    limiter.change([permits(3), bucket("1000/s", 1_000)]).unwrap();
    drop(permit);
    assert_eq!(limiter.status()[0].remaining, 3, "permits leaked");
}

/// The reverse: one permit was taken and five were released, four of them of other callers.
#[test]
fn a_single_permit_releases_one_after_a_rate_was_removed() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(5), bucket("1000/s", 1_000)]);
    let large = limiter.enter(5).unwrap();
    let others: Vec<Permit> = (0..4).map(|_| limiter.enter(1).unwrap()).collect();
    limiter.change([permits(5)]).unwrap();
    drop(large);
    assert_eq!(limiter.status()[0].remaining, 1, "four permits are still held");
    drop(others);
}

/// A permit from before the concurrency limit was removed was released to a later limit that never counted it.
#[test]
fn a_permit_of_a_removed_limit_releases_nothing_to_its_successor() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(1)]);
    let early = limiter.enter(1).unwrap();
    limiter.change([bucket("1000/s", 1_000)]).unwrap();
    limiter.change([permits(1)]).unwrap();
    let Ok(permit) = limiter.enter(1) else { return };
    drop(early);
    assert!(limiter.enter(1).is_err(), "one permit is held, the limit is one");
    drop(permit);
}

/// A newly added limit has no reservations. An earlier reservation was returned to it anyway, at the expense of
/// other reservations, and the bucket then refilled next to their tokens.
#[test]
fn a_reservation_refunds_only_limits_it_charged() {
    let clock = ManualClock::new();
    let one = bucket("1000/s", 10);
    let builder = Limiter::builder().limit(one).clock(clock.clone()).reservable();
    let limiter = builder.build().unwrap();
    let early = limiter.enter(5).unwrap();
    limiter.change([one, bucket("1/s", 10)]).unwrap();
    clock.advance(secs(1));
    let permit = limiter.enter(5).unwrap();
    drop(early);
    clock.advance(secs(100));
    assert_eq!(limiter.status()[1].remaining, 5, "five are reserved, so five remain at any time");
    permit.give_back();
    assert!(limiter.status()[1].remaining <= 10);
}

/// A reset must keep held permits: their holders still exist and will release them.
#[test]
fn a_reset_does_not_exceed_the_concurrency_limit() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<str> = Limiter::builder().limit(permits(1)).clock(clock.clone()).build_keyed(10).unwrap();
    let early = limiter.enter("a", 1).unwrap();
    limiter.reset("a");
    let second = limiter.enter("a", 1);
    drop(early);
    assert!(second.is_err() || limiter.enter("a", 1).is_err(), "two were admitted after the reset of a limit of one");
}

/// The overflow slot has one state for many keys, the strictest of them. A refund there moved that state below
/// the debt of other keys.
#[test]
fn a_refund_in_the_overflow_slot_keeps_other_debts() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u32> =
        Limiter::builder().limit(bucket("1/m", 10)).clock(clock.clone()).build_keyed(1).unwrap();
    // Nineteen keys with a debt of five fill the bucket's slots; a twentieth goes to the overflow slot.
    let mut spent = [5; 19];
    for key in 0..19 {
        assert!(limiter.check_cost(&key, 5).is_allowed());
    }
    let permit = limiter.enter(&100, 5).unwrap();
    // The next key has a higher debt and evicts one of them into the overflow slot.
    assert!(limiter.check(&101).is_allowed());
    permit.give_back();
    for (key, spent) in (0..).zip(&mut spent) {
        while limiter.check(&key).is_allowed() {
            *spent += 1;
        }
        assert!(*spent <= 10, "key {key} was admitted {spent} times with a burst of ten");
    }
}

/// A zero-cost read changes nothing, so a later clock step back finds the same state.
#[test]
fn a_peek_takes_nothing_after_a_clock_step_back() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 10)]);
    let early = sluicegate_engine::clock::Clock::now(&clock);
    clock.advance(secs(5));
    assert!(limiter.check_cost(0).is_allowed());
    clock.set(early);
    assert_eq!(limiter.status()[0].remaining, 10);

    let keyed: KeyedLimiter<str> =
        Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).build_keyed(10).unwrap();
    assert!(keyed.check("a").is_allowed());
    clock.advance(secs(5));
    assert!(keyed.check_cost("a", 0).is_allowed());
    clock.set(early);
    assert_eq!(keyed.status("a")[0].remaining, 9);
}

/// A zero-cost read is always admitted, by every kind of limiter, also by an overdrawn one.
#[test]
fn a_peek_is_allowed_on_an_overdrawn_limit() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 10)]);
    limiter.enter(10).unwrap().settle(30);
    assert!(limiter.enter(0).is_ok());
    assert!(limiter.check_cost(0).is_allowed());
}
