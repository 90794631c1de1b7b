//! Faults of `passes` that were found once: each test explains the one it guards against.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{KeyedLimiter, Limiter, Pass};
use support::*;

/// With nothing but permits a cost of three is three permits; beside a rate it is one request and one
/// permit. A pass that was taken under the first and ends under the second gives one back of three.
#[test]
fn a_pass_of_several_permits_gives_all_back_after_a_rate_was_added() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(3)]);
    let pass = limiter.enter(3).unwrap();
    limiter.change([permits(3), bucket("1000/s", 1_000)]).unwrap();
    drop(pass);
    assert_eq!(limiter.status()[0].remaining, 3, "permits are lost for ever");
}

/// The other way round: one permit was taken, five are given back, four of them other people's.
#[test]
fn a_pass_of_one_permit_gives_back_no_more_after_a_rate_was_removed() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(5), bucket("1000/s", 1_000)]);
    let large = limiter.enter(5).unwrap();
    let others: Vec<Pass> = (0..4).map(|_| limiter.enter(1).unwrap()).collect();
    limiter.change([permits(5)]).unwrap();
    drop(large);
    assert_eq!(limiter.status()[0].remaining, 1, "four are still inside");
    drop(others);
}

/// A pass from before the concurrency limit was taken away gives its permit to the new one, in which it
/// never was.
#[test]
fn a_pass_from_an_earlier_life_of_the_limit_gives_nothing_back_to_the_next() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(1)]);
    let early = limiter.enter(1).unwrap();
    limiter.change([bucket("1000/s", 1_000)]).unwrap();
    limiter.change([permits(1)]).unwrap();
    let Ok(inside) = limiter.enter(1) else { return };
    drop(early);
    assert!(limiter.enter(1).is_err(), "one is inside, the limit is one");
    drop(inside);
}

/// A limit that was added has nothing out on it. A reservation from before gives back to it all the
/// same, out of what others have out, and the bucket then fills beside their tokens.
#[test]
fn a_reservation_gives_nothing_back_to_a_limit_it_never_took_from() {
    let clock = ManualClock::new();
    let one = bucket("1000/s", 10);
    let builder = Limiter::builder().limit(one).clock(clock.clone()).reservable();
    let limiter = builder.build().unwrap();
    let early = limiter.enter(5).unwrap();
    limiter.change([one, bucket("1/s", 10)]).unwrap();
    clock.advance(secs(1));
    let late = limiter.enter(5).unwrap();
    drop(early);
    clock.advance(secs(100));
    assert_eq!(limiter.status()[1].remaining, 5, "five are out, so five are left however long it takes");
    late.give_back();
    assert!(limiter.status()[1].remaining <= 10);
}

/// Forgetting a key must not forget who is inside: they are, and they will give their permits back.
#[test]
fn a_reset_does_not_let_more_in_than_the_limit() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<str> = Limiter::builder().limit(permits(1)).clock(clock.clone()).build_keyed(10).unwrap();
    let early = limiter.enter("a", 1).unwrap();
    limiter.reset("a");
    let second = limiter.enter("a", 1);
    drop(early);
    assert!(second.is_err() || limiter.enter("a", 1).is_err(), "two came in after the reset of a limit of one");
}

/// In the strict slot one state stands for many keys, the strictest of them. A caller who gives back
/// there what it took moves that state below what others owe.
#[test]
fn giving_back_in_the_strict_slot_forgives_nobody_elses_debt() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u32> =
        Limiter::builder().limit(bucket("1/m", 10)).clock(clock.clone()).build_keyed(1).unwrap();
    // Nineteen keys that owe five fill the bucket's slots; a twentieth goes to the strict slot.
    let mut spent = [5; 19];
    for key in 0..19 {
        assert!(limiter.check_cost(&key, 5).is_allowed());
    }
    let passing = limiter.enter(&100, 5).unwrap();
    // The next owes more than they do and pushes one of them out, into the strict slot.
    assert!(limiter.check(&101).is_allowed());
    passing.give_back();
    for (key, spent) in (0..).zip(&mut spent) {
        while limiter.check(&key).is_allowed() {
            *spent += 1;
        }
        assert!(*spent <= 10, "key {key} was let in {spent} times with a burst of ten");
    }
}

/// Zero is a look and takes nothing, and so a clock that steps back afterwards finds what it left.
#[test]
fn looking_takes_nothing_even_if_the_clock_steps_back() {
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

/// A look is always let in, by every kind of limiter, also where more was charged than there was.
#[test]
fn looking_is_allowed_where_the_limit_is_overdrawn() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 10)]);
    limiter.enter(10).unwrap().settle(30);
    assert!(limiter.enter(0).is_ok());
    assert!(limiter.check_cost(0).is_allowed());
}
