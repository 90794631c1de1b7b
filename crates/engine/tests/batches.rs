//! Token batches keep the bucket's bound, return unspent tokens and starve no other caller.

use crate::support;

use std::task::Poll;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{Limit, Limiter, Permit, TokenBatch, Verdict};
use sluicegate_testkit::bound::{self, AdmissionEvent, ExactRate};
use sluicegate_testkit::random::SplitMix64;
use support::*;

fn remaining(limiter: &Limiter) -> u64 {
    limiter.status()[0].remaining
}

/// Takes tokens one by one until the batch has some left over.
fn grown_batch(limiter: &Limiter) -> (TokenBatch, u64) {
    let mut batch = limiter.batch();
    let mut spent = 0;
    while batch.remaining() == 0 {
        assert!(batch.take(1));
        spent += 1;
    }
    (batch, spent)
}

#[test]
fn batches_checks_and_permits_together_keep_the_bound() {
    for seed in 0..600 {
        let mut dice = SplitMix64::new(seed);
        let clock = ManualClock::new();
        let burst = 1 + dice.below(100);
        let limiter = limiter(&clock, [bucket("10/s", burst)]);
        let mut batches: Vec<TokenBatch> = (0..3).map(|_| limiter.batch()).collect();
        let mut permits: Vec<(Permit, AdmissionEvent)> = Vec::new();
        let mut spent = Vec::new();
        for _ in 0..400 {
            let index = dice.below(3) as usize;
            let (at, cost) = (clock.now().as_nanos(), 1 + dice.below(3));
            match dice.below(20) {
                0..9 => spent.extend(batches[index].take(cost).then_some(AdmissionEvent { at, cost })),
                9..13 => spent.extend(limiter.check_cost(cost).is_allowed().then_some(AdmissionEvent { at, cost })),
                13 => permits.extend(limiter.enter(cost).ok().map(|permit| (permit, AdmissionEvent { at, cost }))),
                // A refunded permit counts as if it had never been taken.
                14 => permits.pop().into_iter().for_each(|(permit, _)| permit.give_back()),
                15 => spent.extend(permits.pop().map(|(_, admitted)| admitted)),
                16 => batches[index].give_back(),
                17 => batches[index] = limiter.batch(),
                _ => clock.advance(ms(dice.below(2_000))),
            }
        }
        spent.extend(permits.into_iter().map(|(_, admitted)| admitted));
        bound::token_bucket(&spent, ExactRate::per_second(10), burst)
            .unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        drop(batches);
        clock.advance(secs(20));
        assert_eq!(remaining(&limiter), burst, "seed {seed}: all tokens are returned");
    }
}

#[test]
fn a_token_spent_late_is_not_refilled_meanwhile() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = grown_batch(&limiter);
    let ahead = batch.remaining();
    clock.advance(secs(60));
    let others = (0..100).filter(|_| limiter.check().is_allowed()).count() as u64;
    let late = (0..ahead).filter(|_| batch.take(1)).count() as u64;
    assert_eq!((others + late, late), (80, ahead));
}

#[test]
fn a_refusal_does_not_report_outstanding_tokens_as_remaining() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (batch, _) = grown_batch(&limiter);
    clock.advance(secs(60));
    let refused = limiter.check_cost(80);
    assert!(!refused.is_allowed());
    assert_eq!(refused.status, limiter.status()[0]);
    assert_eq!(refused.status.remaining, 80 - batch.remaining());
}

#[test]
fn unspent_tokens_return_immediately() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 800)]);
    let (mut batch, spent) = grown_batch(&limiter);
    assert_eq!(remaining(&limiter), 800 - spent - batch.remaining());
    batch.give_back();
    assert_eq!((remaining(&limiter), batch.remaining()), (800 - spent, 0));
    let (batch, more) = grown_batch(&limiter);
    drop(batch);
    assert_eq!(remaining(&limiter), 800 - spent - more);
}

#[test]
fn batches_hold_at_most_an_eighth_of_the_burst() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("1/h", 8_000)]);
    let mut batches: Vec<TokenBatch> = (0..20).map(|_| limiter.batch()).collect();
    let mut max = 0;
    for _ in 0..300 {
        batches.iter_mut().for_each(|batch| _ = batch.take(1));
        max = max.max(batches.iter().map(TokenBatch::remaining).sum());
    }
    assert!((800..=1_000).contains(&max), "{max}");
}

#[test]
fn one_batch_can_drain_the_bucket() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 1_000)]);
    let mut batch = limiter.batch();
    assert_eq!((0..2_000).filter(|_| batch.take(1)).count(), 1_000);
    clock.advance(ms(500));
    assert_eq!((0..10).filter(|_| batch.take(1)).count(), 5);
    assert!(!batch.take(1_001));
}

#[test]
fn only_a_single_token_bucket_supports_batches() {
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
        assert!(limiter.batch().take(0), "a zero cost is always admitted");
        assert_eq!(remaining(&limiter), 100);
    }
}

#[test]
fn batches_do_not_bypass_the_queue() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = grown_batch(&limiter);
    let ahead = batch.remaining();
    while limiter.check().is_allowed() {}
    let mut task = waiting(limiter.acquire());
    assert!(batch.take(ahead), "these were taken before any caller queued");
    assert!(!batch.take(1));
    let mut other = limiter.batch();
    assert!(!other.take(1));
    clock.advance(ms(100));
    assert!(task.poll_if_woken().unwrap().is_ok());
}

#[test]
fn a_cost_covered_by_outstanding_tokens_has_no_retry_after() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = grown_batch(&limiter);
    clock.advance(secs(60));
    assert_eq!(limiter.check_cost(80).verdict, Verdict::Denied { retry_after: None });
    let mut task = waiting(limiter.acquire().cost(80));
    assert_eq!(clock.pending_timers(), 0);
    batch.give_back();
    assert!(matches!(task.poll_if_woken(), Some(Ok(_))));
}

#[test]
fn changing_the_limits_keeps_outstanding_tokens() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = grown_batch(&limiter);
    let ahead = batch.remaining();
    limiter.change([bucket("100/s", 40)]).unwrap();
    clock.advance(secs(60));
    let others = (0..100).filter(|_| limiter.check().is_allowed()).count() as u64;
    assert_eq!(others + ahead, 40);
    assert!(batch.take(ahead));
    // Change to limits of another kind and back: outstanding tokens are dropped and not returned either.
    let (mut stale, ..) = {
        clock.advance(secs(60));
        grown_batch(&limiter)
    };
    limiter.change([log(40, secs(1))]).unwrap();
    limiter.change([bucket("100/s", 40)]).unwrap();
    let before = remaining(&limiter);
    stale.give_back();
    assert_eq!(remaining(&limiter), before);
}

#[test]
fn a_permit_taken_while_a_batch_is_outstanding_refunds_nothing() {
    // Returning the batch would restore the arrival time at which the permit was taken, although refill was lost
    // and another caller came in between.
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 80)]);
    let (mut batch, _) = grown_batch(&limiter);
    clock.advance(secs(60));
    let permit = limiter.enter(40).unwrap();
    let ahead = batch.remaining();
    clock.advance(ms(3_900));
    assert!(limiter.check_cost(ahead).is_allowed());
    batch.give_back();
    permit.give_back();
    assert!(remaining(&limiter) + ahead <= 80, "{} and {ahead}", remaining(&limiter));
}

#[test]
fn threads_with_batches_share_one_burst() {
    let clock = ManualClock::new();
    let limiter = limiter(&clock, [bucket("10/s", 10_000)]);
    let spent: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|index| {
                let mut batch = limiter.batch();
                let limiter = &limiter;
                scope.spawn(move || {
                    (0..8_000).filter(|_| if index == 0 { limiter.check().is_allowed() } else { batch.take(1) }).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(spent, 10_000);
}

#[test]
fn even_if_full_joins_a_full_queue() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder().limit(leaky("10/s", 2)).max_waiting(1).clock(clock.clone()).build().unwrap();
    let mut tasks: Vec<_> = (0..4).map(|_| Task::new(limiter.acquire().even_if_full())).collect();
    let ready = tasks.iter_mut().map(|task| task.poll()).filter(Poll::is_ready).count();
    assert_eq!((ready, limiter.waiting()), (1, 3));
    assert!(Task::new(limiter.acquire()).now().is_err());
    let left = run(&clock, &mut tasks[1..]);
    assert_eq!(left.iter().map(|left| left.at.as_millis()).collect::<Vec<_>>(), [100, 200, 300]);
}
