//! What callers hold: never more than there is, given back exactly once, however it ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{KeyedLimiter, Limit, Limiter, Pass, Verdict};
use sluicegate_testkit::bound::{self, Admitted, Pace};
use support::*;

/// The case handed to us: a bucket of ten at ten per second, asked thirty times at once by ten threads.
#[test]
fn ten_threads_get_ten_tokens_and_one_more_after_a_tenth_of_a_second() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 10)]);
    let ask = || {
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..10).map(|_| scope.spawn(|| (0..3).filter(|_| limiter.check().is_allowed()).count())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
        })
    };
    assert_eq!(ask(), 10);
    clock.advance(ms(100) - NANO);
    assert_eq!(ask(), 0);
    clock.advance(NANO);
    assert_eq!(ask(), 1);
    clock.advance(secs(60));
    assert_eq!(ask(), 10);
}

#[test]
fn permits_out_never_exceed_the_limit_under_many_threads() {
    const LIMIT: u64 = 5;
    let clock = ManualClock::new();
    let alone = limiter(&clock, [permits(LIMIT)]);
    let with_rate = limiter(&clock, [bucket("1000000/s", 1_000_000), permits(LIMIT)]);
    for limiter in [alone, with_rate] {
        let inside = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (limiter, inside) = (&limiter, &inside);
                scope.spawn(move || {
                    let mut dice = Dice::new(thread);
                    for _ in 0..3_000 {
                        let Ok(pass) = limiter.enter(1) else { continue };
                        let before = inside.fetch_add(1, Ordering::SeqCst);
                        assert!(before < LIMIT, "{before} were inside already");
                        let leave = || {
                            inside.fetch_sub(1, Ordering::SeqCst);
                        };
                        match dice.below(5) {
                            0 => {
                                leave();
                                drop(pass);
                            }
                            1 => {
                                leave();
                                pass.give_back();
                            }
                            2 => {
                                leave();
                                pass.settle(1);
                            }
                            3 => {
                                let held = pass.into_held();
                                leave();
                                drop(held);
                            }
                            _ => {
                                let failing = || {
                                    let _held = pass;
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
        assert_eq!(left, Some(LIMIT), "every permit is back, and none twice");
    }
}

#[test]
fn checking_takes_no_permit_along() {
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
fn what_was_reserved_and_not_spent_comes_back_however_late() {
    let clock = ManualClock::new();
    let builder = Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).reservable();
    let limiter = builder.build().unwrap();
    let estimate = limiter.enter(8).unwrap();
    assert_eq!((estimate.cost(), limiter.status()[0].remaining), (8, 2));
    clock.advance(secs(100));
    assert_eq!(limiter.status()[0].remaining, 2, "what is out is not refilled");
    estimate.settle(3);
    assert_eq!(limiter.status()[0].remaining, 7);
    let more = limiter.enter(2).unwrap();
    more.settle(9);
    assert_eq!(limiter.status()[0].remaining, 0);
    clock.advance(secs(2));
    assert_eq!(limiter.status()[0].remaining, 0, "what was charged beyond is owed");
    clock.advance(secs(1));
    assert_eq!(limiter.status()[0].remaining, 1);
    limiter.enter(1).unwrap().give_back();
    assert_eq!(limiter.status()[0].remaining, 1);
}

/// What is held can be told from what was decided: the end is the same, for every kind of limit.
#[test]
fn what_is_only_held_ends_as_the_pass_would_have() {
    let plans: [&[Limit]; 4] = [
        &[permits(3)],
        &[bucket("1/s", 10)],
        &[permits(3), bucket("1/s", 10)],
        &[permits(3), leaky("1/s", 10), permits(2)],
    ];
    for plan in plans {
        let clock = ManualClock::new();
        let build = || Limiter::builder().limits(plan.to_vec()).clock(clock.clone()).reservable().build().unwrap();
        let (passing, holding) = (build(), build());
        let pass = passing.enter(2).unwrap();
        let held = holding.enter(2).unwrap().into_held();
        assert_eq!(passing.status(), holding.status(), "{plan:?} while held");
        clock.advance(secs(100));
        assert_eq!(passing.status(), holding.status(), "{plan:?} held for long");
        drop((pass, held));
        assert_eq!(passing.status(), holding.status(), "{plan:?} after it ended");
    }
}

/// Tokens that were out are not refilled by a change of the limit that happens meanwhile.
#[test]
fn what_was_reserved_before_a_change_and_spent_after_it_is_not_refilled() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder().limit(bucket("1/s", 10)).clock(clock.clone()).reservable().build().unwrap();
    let estimate = limiter.enter(8).unwrap();
    limiter.change([bucket("2/s", 10)]).unwrap();
    clock.advance(secs(100));
    assert_eq!(limiter.status()[0].remaining, 2);
    drop(estimate);
    assert_eq!(limiter.status()[0].remaining, 2, "eight were spent just now");
}

/// Settled costs of random histories, against the exact bound. What turns out to be more than reserved
/// is charged even if it does not fit, so histories with such settlements are left out.
#[test]
fn reservations_keep_the_bound_whatever_is_settled() {
    for (seed, reservable) in (0..600).map(|seed| (seed, seed % 2 == 0)) {
        let mut dice = Dice::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(10);
        let builder = Limiter::builder().limit(bucket("10/s", burst)).clock(clock.clone());
        let limiter = if reservable { builder.reservable() } else { builder }.build().unwrap();
        let mut out: Vec<(Pass, usize)> = Vec::new();
        let mut spent: Vec<Admitted> = Vec::new();
        for _ in 0..80 {
            match dice.below(3) {
                0 => clock.advance(ms(dice.below(400))),
                1 => {
                    if let Ok(pass) = limiter.enter(1 + dice.below(burst)) {
                        spent.push(Admitted { at: clock.now().as_nanos(), cost: pass.cost() });
                        out.push((pass, spent.len() - 1));
                    }
                }
                _ if out.is_empty() => {}
                _ => {
                    let (pass, index) = out.swap_remove(dice.below(out.len() as u64) as usize);
                    let actual = dice.below(spent[index].cost + 1);
                    // Spent when it was taken; and, for reservations, it might as well be now.
                    spent[index].cost = actual;
                    pass.settle(actual);
                }
            }
        }
        drop(out);
        bound::token_bucket(&spent, Pace::per_second(10), burst)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

/// The same if what is reserved is really spent at the end: then the moment of settling counts.
#[test]
fn reservations_keep_the_bound_if_they_are_spent_when_settled() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(10);
        let builder = Limiter::builder().limit(bucket("10/s", burst)).clock(clock.clone()).reservable();
        let limiter = builder.build().unwrap();
        let mut out: Vec<Pass> = Vec::new();
        let mut spent: Vec<Admitted> = Vec::new();
        for _ in 0..80 {
            match dice.below(3) {
                0 => clock.advance(ms(dice.below(400))),
                1 => out.extend(limiter.enter(1 + dice.below(burst))),
                _ if out.is_empty() => {}
                _ => {
                    let pass = out.swap_remove(dice.below(out.len() as u64) as usize);
                    let cost = dice.below(pass.cost() + 1);
                    spent.push(Admitted { at: clock.now().as_nanos(), cost });
                    pass.settle(cost);
                }
            }
        }
        bound::token_bucket(&spent, Pace::per_second(10), burst)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

#[test]
fn giving_back_at_once_undoes_it_exactly_for_every_kind() {
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
fn permits_survive_a_change_of_their_number() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [permits(3), bucket("1000/s", 1_000)]);
    let mut inside: Vec<Pass> = (0..3).map(|_| limiter.enter(1).unwrap()).collect();
    limiter.change([permits(1), bucket("1000/s", 1_000)]).unwrap();
    assert_eq!(limiter.status()[0].remaining, 0);
    inside.pop();
    inside.pop();
    assert!(limiter.enter(1).is_err(), "one is still inside");
    inside.pop();
    inside.push(limiter.enter(1).unwrap());
    limiter.change([bucket("500/s", 1_000), permits(4)]).unwrap();
    inside.extend((0..3).map(|_| limiter.enter(1).unwrap()));
    assert!(limiter.enter(1).is_err());
    drop(inside);
    assert_eq!(limiter.status()[1].remaining, 4);
}

#[test]
fn adding_a_limit_on_permits_counts_whoever_comes_from_then_on() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1000/s", 1_000)]);
    let early: Vec<Pass> = (0..3).map(|_| limiter.enter(1).unwrap()).collect();
    limiter.change([bucket("1000/s", 1_000), permits(2)]).unwrap();
    let late = [limiter.enter(1).unwrap(), limiter.enter(1).unwrap()];
    drop(early);
    assert_eq!(limiter.status()[1].remaining, 0, "those who came before hold no permit to give back");
    limiter.change([bucket("1000/s", 1_000)]).unwrap();
    drop(late);
    assert!(limiter.enter(1).is_ok());
}

/// Random changes of the number of permits while passes come and go: what is out is always what the
/// limiter counts.
#[test]
fn permits_out_are_counted_right_through_random_changes() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let clock = ManualClock::new();
        let keyed: KeyedLimiter<u64> = Limiter::builder()
            .limits([permits(3), bucket("1000000/s", 1_000_000)])
            .clock(clock.clone())
            .build_keyed(100)
            .unwrap();
        let mut limit = 3;
        let mut inside: [Vec<Pass>; 2] = [vec![], vec![]];
        for _ in 0..100 {
            let key = dice.below(2) as usize;
            match dice.below(5) {
                0..2 => {
                    let pass = keyed.enter(&(key as u64), 1 + dice.below(5));
                    assert_eq!(pass.is_ok(), (inside[key].len() as u64) < limit, "seed {seed}");
                    inside[key].extend(pass);
                }
                2..4 if !inside[key].is_empty() => {
                    let pass = inside[key].swap_remove(dice.below(inside[key].len() as u64) as usize);
                    match dice.below(3) {
                        0 => pass.give_back(),
                        1 => drop(pass),
                        _ => drop(pass.into_held()),
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
        drop(inside);
        let place = keyed.limits().iter().position(Limit::is_concurrency).unwrap();
        assert!((0..2).all(|key| keyed.status(&key)[place].remaining == limit), "seed {seed}");
    }
}

/// Far more keys than fit, each holding permits: those without a slot share the strict one, and when all
/// have left, every key has its full number again.
#[test]
fn keys_without_a_slot_of_their_own_lose_no_permit() {
    for limits in [vec![permits(3)], vec![permits(3), bucket("1000000/s", 1_000_000)]] {
        for seed in 0..20 {
            let mut dice = Dice::new(seed);
            let clock = ManualClock::new();
            let builder = Limiter::builder().limits(limits.iter().copied()).clock(clock.clone());
            let limiter: KeyedLimiter<u64> = builder.build_keyed(5).unwrap();
            let mut inside: Vec<(u64, Pass)> = Vec::new();
            for _ in 0..2_000 {
                let key = dice.below(100);
                if dice.below(2) == 0 {
                    if let Ok(pass) = limiter.enter(&key, 1) {
                        inside.push((key, pass));
                    }
                    let held = inside.iter().filter(|(other, _)| *other == key).count();
                    assert!(held <= 3, "seed {seed}: {held} of key {key}");
                } else if !inside.is_empty() {
                    drop(inside.swap_remove(dice.below(inside.len() as u64) as usize));
                }
                if dice.below(50) == 0 {
                    clock.advance(ms(1));
                }
            }
            inside.clear();
            clock.advance(secs(2));
            for key in 0..100 {
                let all: Vec<Pass> = (0..3).map(|_| limiter.enter(&key, 1).unwrap()).collect();
                assert!(limiter.enter(&key, 1).is_err());
                drop(all);
            }
        }
    }
}

#[test]
fn reservations_of_keys_without_a_slot_keep_the_bound() {
    for seed in 0..40 {
        let mut dice = Dice::new(seed);
        let clock = ManualClock::new();
        let builder = Limiter::builder().limit(bucket("10/s", 4)).clock(clock.clone()).reservable();
        let limiter: KeyedLimiter<u64> = builder.build_keyed(3).unwrap();
        let mut out: Vec<(u64, Pass)> = Vec::new();
        let mut spent: Vec<Vec<Admitted>> = vec![Vec::new(); 60];
        for _ in 0..3_000 {
            let key = dice.below(60);
            match dice.below(5) {
                0..2 => out.extend(limiter.enter(&key, 1 + dice.below(4)).ok().map(|pass| (key, pass))),
                2..4 if !out.is_empty() => {
                    let (key, pass) = out.swap_remove(dice.below(out.len() as u64) as usize);
                    let cost = dice.below(pass.cost() + 1);
                    spent[key as usize].push(Admitted { at: clock.now().as_nanos(), cost });
                    pass.settle(cost);
                }
                _ => clock.advance(ms(dice.below(30))),
            }
        }
        for (key, spent) in spent.iter().enumerate() {
            bound::token_bucket(spent, Pace::per_second(10), 4)
                .unwrap_or_else(|broken| panic!("seed {seed}, key {key}: {broken}"));
        }
        drop(out);
        clock.advance(secs(60));
        assert!((0..60).all(|key| limiter.status(&key)[0].remaining == 4), "seed {seed}: something stayed out");
    }
}
