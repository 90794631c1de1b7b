//! Limits of a class, taken together with its places.

use std::time::Duration;

use sluicegate::clock::ManualClock;
use sluicegate::pool::{Cause, Class};
use sluicegate::{Limit, Rate};

use super::support::*;

fn bucket(per_second: u64, burst: u64) -> Limit {
    Limit::token_bucket(Rate::per_second(per_second).unwrap(), burst).unwrap()
}

#[test]
fn a_refusal_by_the_place_takes_nothing_from_the_limit_and_the_other_way_round() {
    let clock = ManualClock::new();
    let class = Class::new().limit(bucket(1, 2)).wait(ms(0));
    let bulkhead = bulkhead(&clock, 1, &[("work", class), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    let inside = other.enter().unwrap();
    for _ in 0..10 {
        assert_eq!(work.enter().unwrap_err().cause, Cause::NoPlace);
    }
    drop(inside);
    drop(fill(&work, 1));
    drop(fill(&work, 1)); // both are left
    let refusal = work.enter().unwrap_err();
    assert_eq!(refusal.cause, Cause::Limit { retry_after: Some(secs(1)) });
    assert_eq!(refusal.to_string(), "work over the limit: try again in 1000ms");
    assert_eq!((work.status().in_use, work.status().counts.over_limit), (0, 1));
    assert!(other.enter().is_ok(), "no place was taken");
}

#[test]
fn who_waits_for_a_limit_goes_at_the_nanosecond_and_keeps_no_place_from_others() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().limit(bucket(10, 1))), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    drop(fill(&work, 1));
    let mut line = [Caller::waiting(work.acquire()), Caller::waiting(work.acquire())];
    drop(other.enter().unwrap());
    for place in 0..2 {
        clock.advance(ms(100) - NANO);
        assert!(!line[place].is_woken());
        clock.advance(NANO);
        drop(line[place].outcome().unwrap());
        drop(other.enter().unwrap());
        // Woken to be told until when the limit holds it up now.
        line[place + 1..].iter_mut().for_each(|caller| assert!(caller.poll().is_pending()));
    }
    assert_eq!(clock.alarms(), 0);
}

#[test]
fn the_first_in_line_whose_limit_opens_too_late_is_told_at_once() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 2, &[("work", Class::new().limit(bucket(1, 1)).wait(ms(999)))]);
    let work = bulkhead.class("work").unwrap();
    drop(fill(&work, 1));
    let refusal = work.acquire().blocking().unwrap_err();
    assert_eq!((refusal.cause, refusal.waited), (Cause::Limit { retry_after: Some(secs(1)) }, Duration::ZERO));
    clock.advance(NANO);
    clock.advance(ms(1));
    drop(Caller::waiting(work.acquire()));
}

#[test]
fn who_gets_a_place_but_not_the_limit_is_woken_to_wait_for_the_clock() {
    // It waits for a place first, with an alarm at its deadline only. When the place comes free the limit
    // holds it up: it must learn that, or it would sleep until its deadline.
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().limit(bucket(1, 1)).wait(secs(60)))]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.enter().unwrap();
    let mut caller = Caller::waiting(work.acquire());
    drop(inside);
    assert!(caller.is_woken());
    assert!(caller.poll().is_pending());
    clock.advance(secs(1));
    drop(caller.outcome().unwrap());
}

#[test]
fn who_was_told_once_is_told_again() {
    // Held up by the limit until a moment, then kept out by a place taken from the other class, then held
    // up by the limit again until the same moment.
    let clock = ManualClock::new();
    let bulkhead =
        bulkhead(&clock, 1, &[("work", Class::new().limit(bucket(1, 1)).wait(secs(60))), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    drop(fill(&work, 1));
    let mut caller = Caller::waiting(work.acquire());
    let inside = other.enter().unwrap();
    assert!(caller.poll().is_pending()); // its alarm is at its deadline now
    drop(inside);
    assert!(caller.is_woken());
    assert!(caller.poll().is_pending());
    clock.advance(secs(1));
    drop(caller.outcome().unwrap());
}

#[test]
fn every_kind_of_limit_paces_the_beginnings() {
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
        let mut line: Vec<_> = (0..20).map(|_| Some(Caller::new(work.acquire()))).collect();
        let mut begun = Vec::new();
        for _ in 0..1_000 {
            for caller in &mut line {
                if let Some(std::task::Poll::Ready(result)) = caller.as_mut().map(Caller::poll) {
                    drop(result.unwrap());
                    begun.push(sluicegate::clock::Clock::now(&clock));
                    *caller = None;
                }
            }
            clock.advance(ms(10));
        }
        assert_eq!(begun.len(), 20, "{limit}: everybody begins in the end");
        let span = *begun.last().unwrap() - begun[0];
        assert!(span >= ms(2_900) && span <= secs(5), "{limit}: 20 at 5 a second took {span:?}");
        assert_eq!((work.status().in_use, clock.alarms()), (0, 0));
    }
}

#[test]
fn permits_among_the_limits_come_back_with_the_place() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 5, &[("work", Class::new().limit(Limit::concurrency(1).unwrap()))]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.enter().unwrap();
    assert_eq!(work.enter().unwrap_err().cause, Cause::Limit { retry_after: None });
    let mut caller = Caller::waiting(work.acquire());
    drop(inside);
    drop(caller.outcome().unwrap());
    let mut caller = Caller::new(work.acquire());
    assert!(caller.poll().is_ready());
}
