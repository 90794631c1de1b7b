//! Limits replaced while in use: no change gives extra quota, and unchanged limits keep their state.

use crate::support;

use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;
use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{KeyedLimiter, Limit, LimitError, Limiter, MAX_LIMITS, Rate};
use support::*;

/// Any limit that admits single units.
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

/// Number of units admitted one by one at this instant.
fn drain(check: impl Fn() -> bool) -> u64 {
    (0..).take_while(|_| check()).count() as u64
}

/// Usage of a limiter: pauses and costs.
fn uses() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((0..800u64, 0..6u64), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn a_change_admits_nothing_extra(
        old in limits(), new in limits(), uses in uses(), reservable: bool,
    ) {
        let clock = ManualClock::new();
        let builder = || {
            let builder = Limiter::builder().limit(old).clock(clock.clone());
            if reservable { builder.reservable() } else { builder }
        };
        let (unkeyed, twin) = (builder().build().unwrap(), builder().build().unwrap());
        let keyed: KeyedLimiter<str> = builder().build_keyed(100).unwrap();
        for (pause, cost) in uses {
            clock.advance(ms(pause));
            unkeyed.check_cost(cost);
            twin.check_cost(cost);
            keyed.check_cost("a", cost);
        }
        let left = drain(|| twin.check().is_admitted());
        unkeyed.change([new]).unwrap();
        keyed.change([new]).unwrap();
        prop_assert_eq!(unkeyed.status(), keyed.status("a"));
        let taken = drain(|| unkeyed.check().is_admitted());
        let max = max_after_change(&old, &new, left);
        prop_assert!(taken <= max, "{} of {}: {} -> {}", taken, max, old, new);
        if differ_in_amount_alone(&old, &new) {
            prop_assert_eq!(taken, max, "raised quota is available immediately: {} -> {}", old, new);
        }
        prop_assert_eq!(drain(|| keyed.check("a").is_admitted()), taken);
        // An unknown key has the full new limit.
        prop_assert_eq!(drain(|| keyed.check("fresh").is_admitted()), new.capacity());
    }

    #[test]
    fn unchanged_limits_keep_their_state_exactly(old in limits(), other in limits(), uses in uses(), after in uses()) {
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
fn an_invalid_change_has_no_effect() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/s", 2)]);
    assert!(limiter.check().is_allowed());
    assert_eq!(limiter.change([]), Err(LimitError::NoLimits));
    let many = vec![bucket("1/s", 2); MAX_LIMITS + 1];
    assert!(matches!(limiter.change(many), Err(LimitError::TooManyLimits { .. })));
    assert_eq!((limiter.limits(), limiter.status()[0].remaining), (vec![bucket("1/s", 2)], 1));
}

#[test]
fn a_thousand_changes_leak_nothing() {
    let clock = ManualClock::new();
    let unkeyed = limiter(&clock, [bucket("10/s", 10)]);
    let keyed: KeyedLimiter<u64> =
        Limiter::builder().limit(bucket("10/s", 10)).clock(clock.clone()).build_keyed(50).unwrap();
    let bytes = keyed.bytes();
    for key in 0..20 {
        assert!(keyed.check_cost(&key, 7).is_allowed());
    }
    assert!(unkeyed.check_cost(7).is_allowed());
    for round in 0..1_000 {
        let other = [bucket("10/s", 10), bucket("10/s", 11)][round % 2];
        unkeyed.change([other]).unwrap();
        keyed.change([other]).unwrap();
        assert_eq!(keyed.bytes(), bytes);
    }
    let left = unkeyed.status()[0].remaining;
    assert!(left <= 3, "{left}");
    assert!((0..20).all(|key| keyed.status(&key)[0].remaining == left));
    clock.advance(secs(2));
    assert_eq!(drain(|| unkeyed.check().is_allowed()), 11);
    assert_eq!(drain(|| keyed.check(&3).is_allowed()), 11);
    assert_eq!((keyed.limits(), keyed.early_evictions()), (vec![bucket("10/s", 11)], 0));
}

/// Two threads decide while a third switches between limits of the same size. The clock is stopped, so all of
/// them together may take the first burst and no more.
#[test]
fn changes_under_load_admit_nothing_extra() {
    for others in [
        [bucket("1/h", 1_000), bucket("2/h", 1_000)],
        [bucket("1/h", 1_000), leaky("1/h", 1_000)],
        [fixed(1_000, secs(3_600)), bucket("1/h", 1_000)],
        [sliding(1_000, secs(3_600), 10), log(1_000, secs(3_600))],
    ] {
        let clock = ManualClock::new();
        let first = others[0];
        let unkeyed = limiter(&clock, [first]);
        let keyed: KeyedLimiter<u64> = Limiter::builder().limit(first).clock(clock.clone()).build_keyed(20).unwrap();
        let done = AtomicBool::new(false);
        let (of_unkeyed, of_keyed) = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut admitted = (0, [0u64; 3]);
                        for round in 0..5_000u64 {
                            admitted.0 += u64::from(unkeyed.check().is_admitted());
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
                    unkeyed.change([others[round % 2]]).unwrap();
                    keyed.change([others[round % 2]]).unwrap();
                }
            });
            let admitted: Vec<(u64, [u64; 3])> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            done.store(true, Ordering::Relaxed);
            let of_keyed = [0, 1, 2].map(|key| admitted[0].1[key] + admitted[1].1[key]);
            (admitted[0].0 + admitted[1].0, of_keyed)
        });
        assert!(of_unkeyed <= 1_000, "{of_unkeyed} of 1000: {}", others[1]);
        assert!(of_keyed.iter().all(|admitted| *admitted <= 1_000), "{of_keyed:?} of 1000: {}", others[1]);
    }
}

#[test]
fn paced_limits_carry_their_state_over() {
    let clock = ManualClock::new();
    let warm = |per: &str| Limit::warm_up(rate(per), secs(4), 3).unwrap();
    let limiter = limiter(&clock, [bucket("1/s", 1)]);
    assert!(limiter.check().is_allowed());
    limiter.change([warm("2/s")]).unwrap();
    assert!(!limiter.check().is_allowed(), "spent quota stays spent");
    clock.advance(secs(10));
    assert!(limiter.check().is_allowed());
    limiter.change([warm("4/s")]).unwrap();
    assert!(!limiter.check().is_allowed());
    limiter.change([bucket("1/s", 5)]).unwrap();
    assert!(!limiter.check().is_allowed());
}
