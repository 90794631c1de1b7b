//! Limits of a class, acquired together with its permits.

use std::time::Duration;

use sluicegate::bulkhead::{BulkheadCause, Class};
use sluicegate::clock::ManualClock;
use sluicegate::{Limit, Rate};

use super::support::*;

fn bucket(per_second: u64, burst: u64) -> Limit {
    Limit::token_bucket(Rate::per_second(per_second).unwrap(), burst).unwrap()
}

#[test]
fn permit_and_rate_limit_are_acquired_together_or_not_at_all() {
    let clock = ManualClock::new();
    let class = Class::new().limit(bucket(1, 2)).wait(ms(0));
    let bulkhead = bulkhead(&clock, 1, &[("work", class), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    let inside = other.try_acquire().unwrap();
    for _ in 0..10 {
        assert_eq!(work.try_acquire().unwrap_err().cause, BulkheadCause::NoPermit);
    }
    drop(inside);
    drop(fill(&work, 1));
    drop(fill(&work, 1)); // both are left
    let refusal = work.try_acquire().unwrap_err();
    assert_eq!(refusal.cause, BulkheadCause::Limit { retry_after: Some(secs(1)) });
    assert_eq!(refusal.to_string(), "work over the limit: try again in 1000ms");
    assert_eq!((work.status().in_use, work.status().counts.over_limit), (0, 1));
    assert!(other.try_acquire().is_ok(), "no permit was taken");
}

#[test]
fn rate_limited_waiters_are_admitted_on_time_and_hold_no_permit() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().limit(bucket(10, 1))), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    drop(fill(&work, 1));
    let mut waiters = [ManualCaller::waiting(work.acquire()), ManualCaller::waiting(work.acquire())];
    drop(other.try_acquire().unwrap());
    for index in 0..2 {
        clock.advance(ms(100) - NANO);
        assert!(!waiters[index].is_woken());
        clock.advance(NANO);
        drop(waiters[index].outcome().unwrap());
        drop(other.try_acquire().unwrap());
        // The next waiter is woken to set its timer.
        waiters[index + 1..].iter_mut().for_each(|caller| assert!(caller.poll().is_pending()));
    }
    assert_eq!(clock.pending_timers(), 0);
}

#[test]
fn the_queue_head_is_refused_at_once_if_its_limit_opens_too_late() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 2, &[("work", Class::new().limit(bucket(1, 1)).wait(ms(999)))]);
    let work = bulkhead.class("work").unwrap();
    drop(fill(&work, 1));
    let refusal = work.acquire().blocking().unwrap_err();
    assert_eq!((refusal.cause, refusal.waited), (BulkheadCause::Limit { retry_after: Some(secs(1)) }, Duration::ZERO));
    clock.advance(NANO);
    clock.advance(ms(1));
    drop(ManualCaller::waiting(work.acquire()));
}

#[test]
fn a_waiter_blocked_only_by_its_limit_is_woken_to_set_a_timer() {
    // It first waits for a permit, with a timer at its deadline only. When the permit becomes free, the limit blocks
    // it: it must be woken, or it would sleep until its deadline.
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().limit(bucket(1, 1)).wait(secs(60)))]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.try_acquire().unwrap();
    let mut caller = ManualCaller::waiting(work.acquire());
    drop(inside);
    assert!(caller.is_woken());
    assert!(caller.poll().is_pending());
    clock.advance(secs(1));
    drop(caller.outcome().unwrap());
}

#[test]
fn a_waiter_blocked_by_its_limit_twice_is_woken_twice() {
    // Blocked by the limit until a certain time, then by a permit of the other class, then by the limit again until
    // the same time.
    let clock = ManualClock::new();
    let bulkhead =
        bulkhead(&clock, 1, &[("work", Class::new().limit(bucket(1, 1)).wait(secs(60))), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    drop(fill(&work, 1));
    let mut caller = ManualCaller::waiting(work.acquire());
    let inside = other.try_acquire().unwrap();
    assert!(caller.poll().is_pending()); // its timer is at its deadline now
    drop(inside);
    assert!(caller.is_woken());
    assert!(caller.poll().is_pending());
    clock.advance(secs(1));
    drop(caller.outcome().unwrap());
}

#[test]
fn every_kind_of_limit_paces_admissions() {
    let second = Duration::from_secs(1);
    let limits = [
        bucket(5, 1),
        Limit::leaky_bucket(Rate::per_second(5).unwrap(), 10).unwrap(),
        Limit::sliding_log(5, second).unwrap(),
        Limit::sliding_window(5, second, 10).unwrap(),
        Limit::fixed_window(5, second, sluicegate::algorithm::Alignment::FirstUse).unwrap(),
    ];
    for limit in limits {
        let clock = ManualClock::new();
        let bulkhead = bulkhead(&clock, 3, &[("work", Class::new().limit(limit).wait(secs(100)))]);
        let work = bulkhead.class("work").unwrap();
        let mut waiters: Vec<_> = (0..20).map(|_| Some(ManualCaller::new(work.acquire()))).collect();
        let mut begun = Vec::new();
        for _ in 0..1_000 {
            for caller in &mut waiters {
                if let Some(std::task::Poll::Ready(result)) = caller.as_mut().map(ManualCaller::poll) {
                    drop(result.unwrap());
                    begun.push(sluicegate::clock::Clock::now(&clock));
                    *caller = None;
                }
            }
            clock.advance(ms(10));
        }
        assert_eq!(begun.len(), 20, "{limit}: every caller is admitted eventually");
        let span = *begun.last().unwrap() - begun[0];
        assert!(span >= ms(2_900) && span <= secs(5), "{limit}: 20 at 5 a second took {span:?}");
        assert_eq!((work.status().in_use, clock.pending_timers()), (0, 0));
    }
}

#[test]
fn concurrency_permits_of_limits_are_released_with_the_bulkhead_permit() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 5, &[("work", Class::new().limit(Limit::concurrency(1).unwrap()))]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.try_acquire().unwrap();
    assert_eq!(work.try_acquire().unwrap_err().cause, BulkheadCause::Limit { retry_after: None });
    let mut caller = ManualCaller::waiting(work.acquire());
    drop(inside);
    drop(caller.outcome().unwrap());
    let mut caller = ManualCaller::new(work.acquire());
    assert!(caller.poll().is_ready());
}
