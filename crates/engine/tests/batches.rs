//! Tokens taken ahead keep the bucket's bound, come back, and starve nobody.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::task::Poll;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{Batch, Limit, Limiter, Pass, Verdict};
use sluicegate_testkit::bound::{self, Admitted, Pace};
use support::*;

fn remaining(limiter: &Limiter) -> u64 {
    limiter.status()[0].remaining
}

/// Takes one by one until the batch has tokens left over.
fn warmed(limiter: &Limiter) -> (Batch, u64) {
    let mut batch = limiter.batch();
    let mut spent = 0;
    while batch.left() == 0 {
        assert!(batch.take(1));
        spent += 1;
    }
    (batch, spent)
}

#[test]
fn batches_checks_and_passes_together_keep_the_bound_in_random_histories() {
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(100);
        let limiter = limiter(&clock, [bucket("10/s", burst)]);
        let mut batches: Vec<Batch> = (0..3).map(|_| limiter.batch()).collect();
        let mut passes: Vec<(Pass, Admitted)> = Vec::new();
        let mut spent = Vec::new();
        for _ in 0..400 {
            let which = dice.below(3) as usize;
            let (at, cost) = (clock.now().as_nanos(), 1 + dice.below(3));
            match dice.below(20) {
                0..9 => spent.extend(batches[which].take(cost).then_some(Admitted { at, cost })),
                9..13 => spent.extend(limiter.check_cost(cost).is_allowed().then_some(Admitted { at, cost })),
                13 => passes.extend(limiter.enter(cost).ok().map(|pass| (pass, Admitted { at, cost }))),
                // What a pass gives back is as if it had never been.
                14 => passes.pop().into_iter().for_each(|(pass, _)| pass.give_back()),
                15 => spent.extend(passes.pop().map(|(_, admitted)| admitted)),
                16 => batches[which].give_back(),
                17 => batches[which] = limiter.batch(),
                _ => clock.advance(ms(dice.below(2_000))),
            }
        }
        spent.extend(passes.into_iter().map(|(_, admitted)| admitted));
        bound::token_bucket(&spent, Pace::per_second(10), burst)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        drop(batches);
        clock.advance(secs(20));
        assert_eq!(remaining(&limiter), burst, "seed {seed}: everything comes back");
    }
}

#[test]
fn a_token_spent_late_does_not_come_on_top_of_its_refill() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = warmed(&limiter);
    let ahead = batch.left();
    clock.advance(secs(60));
    let others = (0..100).filter(|_| limiter.check().is_allowed()).count() as u64;
    let late = (0..ahead).filter(|_| batch.take(1)).count() as u64;
    assert_eq!((others + late, late), (80, ahead));
}

#[test]
fn a_refusal_does_not_report_what_is_out_as_left() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (batch, _) = warmed(&limiter);
    clock.advance(secs(60));
    let refused = limiter.check_cost(80);
    assert!(!refused.is_allowed());
    assert_eq!(refused.status, limiter.status()[0]);
    assert_eq!(refused.status.remaining, 80 - batch.left());
}

#[test]
fn what_was_not_spent_comes_back_at_once() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 800)]);
    let (mut batch, spent) = warmed(&limiter);
    assert_eq!(remaining(&limiter), 800 - spent - batch.left());
    batch.give_back();
    assert_eq!((remaining(&limiter), batch.left()), (800 - spent, 0));
    let (batch, more) = warmed(&limiter);
    drop(batch);
    assert_eq!(remaining(&limiter), 800 - spent - more);
}

#[test]
fn batches_hold_an_eighth_of_the_burst_and_no_more() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/h", 8_000)]);
    let mut batches: Vec<Batch> = (0..20).map(|_| limiter.batch()).collect();
    let mut most = 0;
    for _ in 0..300 {
        batches.iter_mut().for_each(|batch| _ = batch.take(1));
        most = most.max(batches.iter().map(Batch::left).sum());
    }
    assert!((800..=1_000).contains(&most), "{most}");
}

#[test]
fn all_of_a_bucket_can_be_had_through_one_batch() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 1_000)]);
    let mut batch = limiter.batch();
    assert_eq!((0..2_000).filter(|_| batch.take(1)).count(), 1_000);
    clock.advance(ms(500));
    assert_eq!((0..10).filter(|_| batch.take(1)).count(), 5);
    assert!(!batch.take(1_001));
}

#[test]
fn only_a_single_token_bucket_gives_ahead() {
    let clock = ManualClock::new();
    let others: [Vec<Limit>; 6] = [
        vec![leaky("10/s", 100)],
        vec![fixed(100, secs(1))],
        vec![log(100, secs(1))],
        vec![sliding(100, secs(1), 10)],
        vec![permits(100)],
        vec![bucket("10/s", 100), bucket("100/m", 100)],
    ];
    for limits in others {
        let limiter = limiter(&clock, limits);
        assert!(!limiter.batch().take(1), "{limiter:?}");
        assert!(limiter.batch().take(0), "nothing is always to be had");
        assert_eq!(remaining(&limiter), 100);
    }
}

#[test]
fn nobody_passes_a_line_with_a_new_batch_and_the_rest_of_an_old_one_goes_to_those_in_it() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = warmed(&limiter);
    let ahead = batch.left();
    while limiter.check().is_allowed() {}
    let mut task = waiting(limiter.acquire());
    assert!(batch.take(ahead), "these were taken before anybody waited");
    assert!(!batch.take(1));
    let mut other = limiter.batch();
    assert!(!other.take(1));
    clock.advance(ms(100));
    assert!(task.poll_if_woken().unwrap().is_ok());
}

#[test]
fn who_needs_what_is_out_waits_for_it_and_not_for_the_clock() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = warmed(&limiter);
    clock.advance(secs(60));
    assert_eq!(limiter.check_cost(80).verdict, Verdict::Denied { retry_after: None });
    let mut task = waiting(limiter.acquire().cost(80));
    assert_eq!(clock.alarms(), 0);
    batch.give_back();
    assert!(matches!(task.poll_if_woken(), Some(Ok(_))));
}

#[test]
fn a_change_of_the_limits_keeps_what_is_out_in_mind() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = warmed(&limiter);
    let ahead = batch.left();
    limiter.change([bucket("100/s", 40)]).unwrap();
    clock.advance(secs(60));
    let others = (0..100).filter(|_| limiter.check().is_allowed()).count() as u64;
    assert_eq!(others + ahead, 40);
    assert!(batch.take(ahead));
    // To limits of another kind and back: what was out then is forgotten, and is not given back either.
    let (mut stale, ..) = {
        clock.advance(secs(60));
        warmed(&limiter)
    };
    limiter.change([log(40, secs(1))]).unwrap();
    limiter.change([bucket("100/s", 40)]).unwrap();
    let before = remaining(&limiter);
    stale.give_back();
    assert_eq!(remaining(&limiter), before);
}

#[test]
fn a_pass_taken_beside_a_batch_gives_nothing_back_that_others_may_have() {
    // The batch's return would bring the bucket back to where it stood when the pass was taken, although
    // refill was lost and somebody else came in between.
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = warmed(&limiter);
    clock.advance(secs(60));
    let pass = limiter.enter(40).unwrap();
    let ahead = batch.left();
    clock.advance(ms(3_900));
    assert!(limiter.check_cost(ahead).is_allowed());
    batch.give_back();
    pass.give_back();
    assert!(remaining(&limiter) + ahead <= 80, "{} and {ahead}", remaining(&limiter));
}

#[test]
fn threads_with_batches_share_one_burst() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 10_000)]);
    let spent: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|nth| {
                let mut mine = limiter.batch();
                let limiter = &limiter;
                scope.spawn(move || {
                    (0..8_000).filter(|_| if nth == 0 { limiter.check().is_allowed() } else { mine.take(1) }).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(spent, 10_000);
}

#[test]
fn a_line_that_is_full_can_be_joined_by_who_asks_for_it() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder().limit(leaky("10/s", 2)).max_waiting(1).clock(clock.clone()).build().unwrap();
    let mut tasks: Vec<_> = (0..4).map(|_| Task::new(limiter.acquire().even_if_full())).collect();
    let ready = tasks.iter_mut().map(|task| task.poll()).filter(Poll::is_ready).count();
    assert_eq!((ready, limiter.waiting()), (1, 3));
    assert!(Task::new(limiter.acquire()).now().is_err());
    let left = run(&clock, &mut tasks[1..]);
    assert_eq!(left.iter().map(|left| left.at.as_millis()).collect::<Vec<_>>(), [100, 200, 300]);
}
