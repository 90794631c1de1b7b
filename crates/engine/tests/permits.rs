//! Permits: never more than the limit, and released exactly once in every case.

use crate::support;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{KeyedLimiter, Limit, Limiter, Permit, Verdict};
use sluicegate_testkit::bound::{self, AdmissionEvent, ExactRate};
use sluicegate_testkit::random::SplitMix64;
use support::*;

/// Reported case: a bucket of ten at ten per second, thirty concurrent calls from ten threads.
#[test]
fn ten_threads_get_ten_tokens_then_one_per_interval() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 10)]);
    let count_admitted = || {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..10).map(|_| scope.spawn(|| (0..3).filter(|_| limiter.check().is_allowed()).count())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        })
    };
    assert_eq!(count_admitted(), 10);
    clock.advance(ms(100) - NANO);
    assert_eq!(count_admitted(), 0);
    clock.advance(NANO);
    assert_eq!(count_admitted(), 1);
    clock.advance(secs(60));
    assert_eq!(count_admitted(), 10);
}

#[test]
fn held_permits_never_exceed_the_limit_under_many_threads() {
    const LIMIT: u64 = 5;
    let clock = ManualClock::new();
    let unkeyed = limiter(&clock, [permits(LIMIT)]);
    let with_rate = limiter(&clock, [bucket("1000000/s", 1_000_000), permits(LIMIT)]);
    for limiter in [unkeyed, with_rate] {
        let in_flight = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (limiter, in_flight) = (&limiter, &in_flight);
                scope.spawn(move || {
                    let mut dice = SplitMix64::new(thread);
                    for _ in 0..3_000 {
                        let Ok(permit) = limiter.enter(1) else { continue };
                        let before = in_flight.fetch_add(1, Ordering::SeqCst);
                        assert!(before < LIMIT, "{before} permits already held");
                        let leave = || {
                            in_flight.fetch_sub(1, Ordering::SeqCst);
                        };
                        match dice.below(5) {
                            0 => {
                                leave();
                                drop(permit);
                            }
                            1 => {
                                leave();
                                permit.give_back();
                            }
                            2 => {
                                leave();
                                permit.settle(1);
                            }
                            3 => {
                                let held = permit.into_owned_permit();
                                leave();
                                drop(held);
                            }
                            _ => {
                                let failing = || {
                                    let _held = permit;
                                    leave();
                                    resume_unwind(Box::new("the request failed"));
                                };
                                assert!(catch_unwind(AssertUnwindSafe(failing)).is_err());
                            }
                        }
                    }
                });
            }
        });
        let left = limiter.status().iter().map(|status| status.remaining).min();
        assert_eq!(left, Some(LIMIT), "every permit is released exactly once");
    }
}

#[test]
fn a_check_holds_no_permit() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(2)]);
    for _ in 0..10 {
        assert!(limiter.check().is_allowed());
        assert!(limiter.check_cost(2).is_allowed());
    }
    let held = limiter.enter(2).unwrap();
    assert_eq!(limiter.check().verdict, Verdict::Denied { retry_after: None });
    assert_eq!(limiter.check_cost(3).verdict, Verdict::Never);
    drop(held);
    assert_eq!(limiter.status()[0].remaining, 2);
}

#[test]
fn a_refusal_takes_nothing_from_any_limit() {
    let clock = ManualClock::new();
    let window = fixed(5, secs(10));
    let limiter = limiter(&clock, [bucket("1/s", 100), window, log(50, secs(10)), permits(9), leaky("1/m", 40)]);
    for _ in 0..5 {
        drop(limiter.enter(1).unwrap());
    }
    let before = limiter.status();
    assert_eq!(limiter.check().limit, 1);
    assert!(limiter.enter(1).is_err());
    assert!(limiter.enter(6).is_err());
    assert_eq!(limiter.check_cost(6).verdict, Verdict::Never);
    assert_eq!(limiter.status(), before);
}

#[test]
fn unspent_reservations_return_however_late() {
    let clock = ManualClock::new();
    let builder = Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).reservable();
    let limiter = builder.build().unwrap();
    let estimate = limiter.enter(8).unwrap();
    assert_eq!((estimate.cost(), limiter.status()[0].remaining), (8, 2));
    clock.advance(secs(100));
    assert_eq!(limiter.status()[0].remaining, 2, "outstanding tokens are not refilled");
    estimate.settle(3);
    assert_eq!(limiter.status()[0].remaining, 7);
    let more = limiter.enter(2).unwrap();
    more.settle(9);
    assert_eq!(limiter.status()[0].remaining, 0);
    clock.advance(secs(2));
    assert_eq!(limiter.status()[0].remaining, 0, "the excess charge is a debt");
    clock.advance(secs(1));
    assert_eq!(limiter.status()[0].remaining, 1);
    limiter.enter(1).unwrap().give_back();
    assert_eq!(limiter.status()[0].remaining, 1);
}

/// An owned permit ends like the full permit, for every kind of limit.
#[test]
fn an_owned_permit_releases_like_the_permit() {
    let limit_sets: [&[Limit]; 4] = [
        &[permits(3)],
        &[bucket("1/s", 10)],
        &[permits(3), bucket("1/s", 10)],
        &[permits(3), leaky("1/s", 10), permits(2)],
    ];
    for limits in limit_sets {
        let clock = ManualClock::new();
        let build = || Limiter::builder().limits(limits.to_vec()).clock(clock.clone()).reservable().build().unwrap();
        let (borrowed, owned) = (build(), build());
        let permit = borrowed.enter(2).unwrap();
        let held = owned.enter(2).unwrap().into_owned_permit();
        assert_eq!(borrowed.status(), owned.status(), "{limits:?} while held");
        clock.advance(secs(100));
        assert_eq!(borrowed.status(), owned.status(), "{limits:?} held for long");
        drop((permit, held));
        assert_eq!(borrowed.status(), owned.status(), "{limits:?} after it ended");
    }
}

/// Outstanding tokens are not refilled by a change of the limit in the meantime.
#[test]
fn a_reservation_spent_after_a_change_is_not_refilled() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).reservable().build().unwrap();
    let estimate = limiter.enter(8).unwrap();
    limiter.change([bucket("2/s", 10)]).unwrap();
    clock.advance(secs(100));
    assert_eq!(limiter.status()[0].remaining, 2);
    drop(estimate);
    assert_eq!(limiter.status()[0].remaining, 2, "eight were spent just now");
}

/// Settled costs of random histories against the exact bound. Costs above the reservation are charged even if
/// they do not fit, so histories with such settlements are left out.
#[test]
fn reservations_keep_the_bound_whatever_is_settled() {
    for (seed, reservable) in (0..600).map(|seed| (seed, seed % 2 == 0)) {
        let mut dice = SplitMix64::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(10);
        let builder = Limiter::builder().limit(bucket("10/s", burst)).clock(clock.clone());
        let limiter = if reservable { builder.reservable() } else { builder }.build().unwrap();
        let mut out: Vec<(Permit, usize)> = Vec::new();
        let mut spent: Vec<AdmissionEvent> = Vec::new();
        for _ in 0..80 {
            match dice.below(3) {
                0 => clock.advance(ms(dice.below(400))),
                1 => {
                    if let Ok(permit) = limiter.enter(1 + dice.below(burst)) {
                        spent.push(AdmissionEvent { at: clock.now().as_nanos(), cost: permit.cost() });
                        out.push((permit, spent.len() - 1));
                    }
                }
                _ if out.is_empty() => {}
                _ => {
                    let (permit, index) = out.swap_remove(dice.below(out.len() as u64) as usize);
                    let actual = dice.below(spent[index].cost + 1);
                    // Spent at the time of the charge or, for reservations, possibly now.
                    spent[index].cost = actual;
                    permit.settle(actual);
                }
            }
        }
        drop(out);
        bound::token_bucket(&spent, ExactRate::per_second(10), burst)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

/// The same if the reservation is spent at the end: then the time of settlement counts.
#[test]
fn reservations_keep_the_bound_if_they_are_spent_when_settled() {
    for seed in 0..300 {
        let mut dice = SplitMix64::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(10);
        let builder = Limiter::builder().limit(bucket("10/s", burst)).clock(clock.clone()).reservable();
        let limiter = builder.build().unwrap();
        let mut out: Vec<Permit> = Vec::new();
        let mut spent: Vec<AdmissionEvent> = Vec::new();
        for _ in 0..80 {
            match dice.below(3) {
                0 => clock.advance(ms(dice.below(400))),
                1 => out.extend(limiter.enter(1 + dice.below(burst))),
                _ if out.is_empty() => {}
                _ => {
                    let permit = out.swap_remove(dice.below(out.len() as u64) as usize);
                    let cost = dice.below(permit.cost() + 1);
                    spent.push(AdmissionEvent { at: clock.now().as_nanos(), cost });
                    permit.settle(cost);
                }
            }
        }
        bound::token_bucket(&spent, ExactRate::per_second(10), burst)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

#[test]
fn an_immediate_refund_restores_every_algorithm() {
    let kinds: [Limit; 7] = [
        bucket("10/s", 10),
        leaky("10/s", 10),
        fixed(10, secs(1)),
        sliding(10, secs(1), 10),
        Limit::interpolated_window(10, secs(1)).unwrap(),
        log(10, secs(1)),
        permits(10),
    ];
    for limit in kinds {
        let clock = ManualClock::new();
        let limiter = limiter(&clock, [limit]);
        let keep = limiter.enter(2).unwrap();
        let before = limiter.status()[0].remaining;
        limiter.enter(5).unwrap().give_back();
        assert_eq!(limiter.status()[0].remaining, before, "{limit}");
        let less = limiter.enter(5).unwrap();
        less.settle(1);
        let spent = if limit.is_concurrency() { 0 } else { 1 };
        assert_eq!(limiter.status()[0].remaining, before - spent, "{limit}");
        drop(keep);
    }
}

#[test]
fn permits_survive_a_changed_limit() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(3), bucket("1000/s", 1_000)]);
    let mut in_flight: Vec<Permit> = (0..3).map(|_| limiter.enter(1).unwrap()).collect();
    limiter.change([permits(1), bucket("1000/s", 1_000)]).unwrap();
    assert_eq!(limiter.status()[0].remaining, 0);
    in_flight.pop();
    in_flight.pop();
    assert!(limiter.enter(1).is_err(), "one permit is still held");
    in_flight.pop();
    in_flight.push(limiter.enter(1).unwrap());
    limiter.change([bucket("500/s", 1_000), permits(4)]).unwrap();
    in_flight.extend((0..3).map(|_| limiter.enter(1).unwrap()));
    assert!(limiter.enter(1).is_err());
    drop(in_flight);
    assert_eq!(limiter.status()[1].remaining, 4);
}

#[test]
fn an_added_concurrency_limit_counts_later_callers() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1000/s", 1_000)]);
    let early: Vec<Permit> = (0..3).map(|_| limiter.enter(1).unwrap()).collect();
    limiter.change([bucket("1000/s", 1_000), permits(2)]).unwrap();
    let late = [limiter.enter(1).unwrap(), limiter.enter(1).unwrap()];
    drop(early);
    assert_eq!(limiter.status()[1].remaining, 0, "earlier callers hold no permit of the new limit");
    limiter.change([bucket("1000/s", 1_000)]).unwrap();
    drop(late);
    assert!(limiter.enter(1).is_ok());
}

/// Random changes of the concurrency limit while permits come and go: the limiter's count always equals the held
/// permits.
#[test]
fn permits_are_counted_correctly_through_random_changes() {
    for seed in 0..200 {
        let mut dice = SplitMix64::new(seed);
        let clock = ManualClock::new();
        let keyed: KeyedLimiter<u64> = Limiter::builder()
            .limits([permits(3), bucket("1000000/s", 1_000_000)])
            .clock(clock.clone())
            .build_keyed(100)
            .unwrap();
        let mut limit = 3;
        let mut in_flight: [Vec<Permit>; 2] = [vec![], vec![]];
        for _ in 0..100 {
            let key = dice.below(2) as usize;
            match dice.below(5) {
                0..2 => {
                    let permit = keyed.enter(&(key as u64), 1 + dice.below(5));
                    assert_eq!(permit.is_ok(), (in_flight[key].len() as u64) < limit, "seed {seed}");
                    in_flight[key].extend(permit);
                }
                2..4 if !in_flight[key].is_empty() => {
                    let permit = in_flight[key].swap_remove(dice.below(in_flight[key].len() as u64) as usize);
                    match dice.below(3) {
                        0 => permit.give_back(),
                        1 => drop(permit),
                        _ => drop(permit.into_owned_permit()),
                    }
                }
                _ => {
                    limit = 1 + dice.below(5);
                    let rate = bucket("1000000/s", 1_000_000 - dice.below(9));
                    keyed
                        .change(if dice.below(2) == 0 { [permits(limit), rate] } else { [rate, permits(limit)] })
                        .unwrap();
                }
            }
        }
        drop(in_flight);
        let place = keyed.limits().iter().position(Limit::is_concurrency).unwrap();
        assert!((0..2).all(|key| keyed.status(&key)[place].remaining == limit), "seed {seed}");
    }
}

/// Far more keys than slots, each with permits: keys without a slot share the overflow slot, and after all
/// permits are released, every key has its full limit again.
#[test]
fn keys_without_a_slot_of_their_own_lose_no_permit() {
    for limits in [vec![permits(3)], vec![permits(3), bucket("1000000/s", 1_000_000)]] {
        for seed in 0..20 {
            let mut dice = SplitMix64::new(seed);
            let clock = ManualClock::new();
            let builder = Limiter::builder().limits(limits.iter().copied()).clock(clock.clone());
            let limiter: KeyedLimiter<u64> = builder.build_keyed(5).unwrap();
            let mut in_flight: Vec<(u64, Permit)> = Vec::new();
            for _ in 0..2_000 {
                let key = dice.below(100);
                if dice.below(2) == 0 {
                    if let Ok(permit) = limiter.enter(&key, 1) {
                        in_flight.push((key, permit));
                    }
                    let held = in_flight.iter().filter(|(other, _)| *other == key).count();
                    assert!(held <= 3, "seed {seed}: {held} of key {key}");
                } else if !in_flight.is_empty() {
                    drop(in_flight.swap_remove(dice.below(in_flight.len() as u64) as usize));
                }
                if dice.below(50) == 0 {
                    clock.advance(ms(1));
                }
            }
            in_flight.clear();
            clock.advance(secs(2));
            for key in 0..100 {
                let all: Vec<Permit> = (0..3).map(|_| limiter.enter(&key, 1).unwrap()).collect();
                assert!(limiter.enter(&key, 1).is_err());
                drop(all);
            }
        }
    }
}

#[test]
fn reservations_of_keys_without_a_slot_keep_the_bound() {
    for seed in 0..40 {
        let mut dice = SplitMix64::new(seed);
        let clock = ManualClock::new();
        let builder = Limiter::builder().limit(bucket("10/s", 4)).clock(clock.clone()).reservable();
        let limiter: KeyedLimiter<u64> = builder.build_keyed(3).unwrap();
        let mut out: Vec<(u64, Permit)> = Vec::new();
        let mut spent: Vec<Vec<AdmissionEvent>> = vec![Vec::new(); 60];
        for _ in 0..3_000 {
            let key = dice.below(60);
            match dice.below(5) {
                0..2 => out.extend(limiter.enter(&key, 1 + dice.below(4)).ok().map(|permit| (key, permit))),
                2..4 if !out.is_empty() => {
                    let (key, permit) = out.swap_remove(dice.below(out.len() as u64) as usize);
                    let cost = dice.below(permit.cost() + 1);
                    spent[key as usize].push(AdmissionEvent { at: clock.now().as_nanos(), cost });
                    permit.settle(cost);
                }
                _ => clock.advance(ms(dice.below(30))),
            }
        }
        for (key, spent) in spent.iter().enumerate() {
            bound::token_bucket(spent, ExactRate::per_second(10), 4)
                .unwrap_or_else(|broken| panic!("seed {seed}, key {key}: {broken}"));
        }
        drop(out);
        clock.advance(secs(60));
        assert!((0..60).all(|key| limiter.status(&key)[0].remaining == 4), "seed {seed}: a permit leaked");
    }
}
