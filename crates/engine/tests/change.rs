//! Limits exchanged while in use: nobody gets anything for free, and what did not change goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{KeyedLimiter, Limit, LimitError, Limiter, MOST_LIMITS, Rate};
use support::*;

/// Any limit that can be had by the piece.
fn limits() -> impl Strategy<Value = Limit> {
    let amount = 1..30u64;
    let window = prop::sample::select(vec![ms(100), secs(1), ms(2_500), secs(60)]);
    (0..8usize, amount, 1..30u64, window).prop_map(|(kind, amount, other, window)| {
        let rate = Rate::new(other, window).unwrap();
        match kind {
            0 => Limit::token_bucket(rate, amount),
            1 => Limit::leaky_bucket(rate, amount),
            2 => Limit::fixed_window(amount, window, Alignment::Epoch),
            3 => Limit::fixed_window(amount, window, Alignment::FirstUse),
            4 => Limit::sliding_window(amount, window, 10),
            5 => Limit::interpolated_window(amount, window),
            6 => Limit::sliding_log(amount, window),
            _ => Limit::bandwidth(rate, amount),
        }
        .unwrap()
    })
}

/// What can be had one by one at this instant.
fn drain(check: impl Fn() -> bool) -> u64 {
    (0..).take_while(|_| check()).count() as u64
}

/// Uses a limiter for a while: pauses and costs.
fn uses() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..800u64, 0..6u64), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_change_gives_nothing_for_free(
        old in limits(), new in limits(), uses in uses(), reservable: bool,
    ) {
        let clock = ManualClock::new();
        let builder = || {
            let builder = Limiter::builder().limit(old).clock(clock.clone());
            if reservable { builder.reservable() } else { builder }
        };
        let (alone, twin) = (builder().build().unwrap(), builder().build().unwrap());
        let keyed: KeyedLimiter<str> = builder().build_keyed(100).unwrap();
        for (pause, cost) in uses {
            clock.advance(ms(pause));
            alone.check_cost(cost);
            twin.check_cost(cost);
            keyed.check_cost("a", cost);
        }
        let left = drain(|| twin.check().is_admitted());
        alone.change([new]).unwrap();
        keyed.change([new]).unwrap();
        prop_assert_eq!(alone.status(), keyed.status("a"));
        let taken = drain(|| alone.check().is_admitted());
        let most = most_after_change(&old, &new, left);
        prop_assert!(taken <= most, "{} of {}: {} -> {}", taken, most, old, new);
        if differ_in_amount_alone(&old, &new) {
            prop_assert_eq!(taken, most, "what is raised can be had at once: {} -> {}", old, new);
        }
        prop_assert_eq!(drain(|| keyed.check("a").is_admitted()), taken);
        // Whoever was never seen has all of the new limit.
        prop_assert_eq!(drain(|| keyed.check("fresh").is_admitted()), new.capacity());
    }

    #[test]
    fn what_did_not_change_goes_on_to_the_bit(old in limits(), other in limits(), uses in uses(), after in uses()) {
        prop_assume!(old != other);
        let clock = ManualClock::new();
        let (changed, twin) = (limiter(&clock, [old]), limiter(&clock, [old]));
        let keyed: KeyedLimiter<str> = Limiter::builder().limit(old).clock(clock.clone()).build_keyed(100).unwrap();
        for (pause, cost) in uses {
            clock.advance(ms(pause));
            changed.check_cost(cost);
            twin.check_cost(cost);
            keyed.check_cost("a", cost);
        }
        changed.change([other, old]).unwrap();
        keyed.change([other, old]).unwrap();
        prop_assert_eq!(changed.status()[1], twin.status()[0]);
        changed.change([old]).unwrap();
        keyed.change([old]).unwrap();
        for (pause, cost) in after {
            clock.advance(ms(pause));
            let decision = twin.check_cost(cost);
            prop_assert_eq!(changed.check_cost(cost), decision);
            prop_assert_eq!(keyed.check_cost("a", cost), decision);
        }
    }
}

#[test]
fn a_bad_change_changes_nothing() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 2)]);
    assert!(limiter.check().is_allowed());
    assert_eq!(limiter.change([]), Err(LimitError::NoLimits));
    let many = vec![bucket("1/s", 2); MOST_LIMITS + 1];
    assert!(matches!(limiter.change(many), Err(LimitError::TooManyLimits { .. })));
    assert_eq!((limiter.limits(), limiter.status()[0].remaining), (vec![bucket("1/s", 2)], 1));
}

#[test]
fn a_thousand_changes_leave_nothing_behind() {
    let clock = ManualClock::new();
    let alone = limiter(&clock, [bucket("10/s", 10)]);
    let keyed: KeyedLimiter<u64> =
        Limiter::builder().limit(bucket("10/s", 10)).clock(clock.clone()).build_keyed(50).unwrap();
    let bytes = keyed.bytes();
    for key in 0..20 {
        assert!(keyed.check_cost(&key, 7).is_allowed());
    }
    assert!(alone.check_cost(7).is_allowed());
    for round in 0..1_000 {
        let other = [bucket("10/s", 10), bucket("10/s", 11)][round % 2];
        alone.change([other]).unwrap();
        keyed.change([other]).unwrap();
        assert_eq!(keyed.bytes(), bytes);
    }
    let left = alone.status()[0].remaining;
    assert!(left <= 3, "{left}");
    assert!((0..20).all(|key| keyed.status(&key)[0].remaining == left));
    clock.advance(secs(2));
    assert_eq!(drain(|| alone.check().is_allowed()), 11);
    assert_eq!(drain(|| keyed.check(&3).is_allowed()), 11);
    assert_eq!((keyed.limits(), keyed.forgotten_early()), (vec![bucket("10/s", 11)], 0));
}

/// Two threads ask while a third changes back and forth between limits of the same size. The clock stands
/// still, so all of them together may have the first burst and not one more.
#[test]
fn changes_under_load_give_nothing_for_free() {
    for others in [
        [bucket("1/h", 1_000), bucket("2/h", 1_000)],
        [bucket("1/h", 1_000), leaky("1/h", 1_000)],
        [fixed(1_000, secs(3_600)), bucket("1/h", 1_000)],
        [sliding(1_000, secs(3_600), 10), log(1_000, secs(3_600))],
    ] {
        let clock = ManualClock::new();
        let first = others[0];
        let alone = limiter(&clock, [first]);
        let keyed: KeyedLimiter<u64> = Limiter::builder().limit(first).clock(clock.clone()).build_keyed(20).unwrap();
        let done = AtomicBool::new(false);
        let (of_alone, of_keyed) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut admitted = (0, [0u64; 3]);
                        for round in 0..5_000u64 {
                            admitted.0 += u64::from(alone.check().is_admitted());
                            let key = round % 3;
                            admitted.1[key as usize] += u64::from(keyed.check(&key).is_admitted());
                        }
                        admitted
                    })
                })
                .collect();
            scope.spawn(|| {
                let mut round = 0;
                while !done.load(Ordering::Relaxed) {
                    round += 1;
                    alone.change([others[round % 2]]).unwrap();
                    keyed.change([others[round % 2]]).unwrap();
                }
            });
            let admitted: Vec<(u64, [u64; 3])> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            done.store(true, Ordering::Relaxed);
            let of_keyed = [0, 1, 2].map(|key| admitted[0].1[key] + admitted[1].1[key]);
            (admitted[0].0 + admitted[1].0, of_keyed)
        });
        assert!(of_alone <= 1_000, "{of_alone} of 1000: {}", others[1]);
        assert!(of_keyed.iter().all(|admitted| *admitted <= 1_000), "{of_keyed:?} of 1000: {}", others[1]);
    }
}

#[test]
fn a_paced_rate_takes_over_and_is_taken_over() {
    let clock = ManualClock::new();
    let warm = |per: &str| Limit::warm_up(rate(per), secs(4), 3).unwrap();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    assert!(limiter.check().is_allowed());
    limiter.change([warm("2/s")]).unwrap();
    assert!(!limiter.check().is_allowed(), "what was spent stays spent");
    clock.advance(secs(10));
    assert!(limiter.check().is_allowed());
    limiter.change([warm("4/s")]).unwrap();
    assert!(!limiter.check().is_allowed());
    limiter.change([bucket("1/s", 5)]).unwrap();
    assert!(!limiter.check().is_allowed());
}
