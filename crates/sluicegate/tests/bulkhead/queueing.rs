//! Lines: order, deadlines, bounds.

use std::task::Poll;
use std::time::Duration;

use sluicegate::bulkhead::{BulkheadCause, Class};
use sluicegate::clock::{Clock, ManualClock};

use super::support::*;

#[test]
fn waiters_are_admitted_fifo_and_try_acquire_does_not_overtake() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let mut inside = work.try_acquire().unwrap();
    let mut waiters: Vec<_> = (0..4).map(|_| ManualCaller::waiting(work.acquire())).collect();
    for index in 0..4 {
        drop(inside);
        assert!(work.try_acquire().is_err(), "the free permit is already granted");
        inside = waiters[index].outcome().unwrap();
        waiters[index + 1..].iter_mut().for_each(ManualCaller::assert_still_pending);
    }
    drop(inside);
    assert_eq!((work.status().in_use, work.status().waiting, clock.pending_timers()), (0, 0, 0));
}

#[test]
fn a_waiter_is_refused_exactly_at_its_deadline() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("reports", Class::new().wait(ms(500)))]);
    let reports = bulkhead.class("reports").unwrap();
    let inside = reports.try_acquire().unwrap();
    let mut caller = ManualCaller::waiting(reports.acquire());
    let mut patient = ManualCaller::waiting(reports.acquire().within(Duration::MAX));
    clock.advance(ms(500) - NANO);
    caller.assert_still_pending();
    clock.advance(NANO);
    let refusal = caller.outcome().unwrap_err();
    assert_eq!((refusal.cause, refusal.waited, refusal.retry_after()), (BulkheadCause::NoPermit, ms(500), None));
    assert_eq!(refusal.to_string(), "no permit for reports: 1 of 1 in use; waited 500ms");
    assert!(matches!(caller.poll(), Poll::Pending), "done, and nothing more to come");
    clock.advance(Duration::from_secs(1_000_000));
    patient.assert_still_pending();
    drop(inside);
    drop(patient.outcome().unwrap());
    let counts = reports.status().counts;
    assert_eq!((counts.admitted, counts.no_permit), (2, 1));
    assert_eq!(counts.max_wait, Duration::from_secs(1_000_000) + ms(500));
}

#[test]
fn a_permit_released_at_the_deadline_is_in_time_and_later_ones_go_to_the_next() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().wait(ms(100)))]);
    let work = bulkhead.class("work").unwrap();
    for (delay, in_time) in [(Duration::ZERO, true), (NANO, false)] {
        let inside = work.try_acquire().unwrap();
        let mut first = ManualCaller::waiting(work.acquire());
        let mut second = ManualCaller::waiting(work.acquire().within(secs(1)));
        clock.advance(ms(100) + delay);
        drop(inside); // before the first is polled again
        assert_eq!(first.outcome().is_ok(), in_time);
        drop(second.outcome().unwrap());
    }
}

#[test]
fn zero_wait_is_refused_at_once_unless_a_permit_is_free() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().wait(Duration::ZERO).max_waiting(0))]);
    let work = bulkhead.class("work").unwrap();
    let permit = work.acquire().blocking().unwrap();
    let refusal = work.acquire().blocking().unwrap_err();
    assert_eq!((refusal.cause, refusal.waited), (BulkheadCause::NoPermit, Duration::ZERO));
    drop(permit);
    assert!(work.acquire().blocking().is_ok());
    assert_eq!(clock.pending_timers(), 0);
}

#[test]
fn the_queue_is_bounded() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().max_waiting(2)), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    let inside = work.try_acquire().unwrap();
    let mut waiters = [ManualCaller::waiting(work.acquire()), ManualCaller::waiting(work.acquire())];
    let refusal = work.acquire().blocking().unwrap_err();
    assert_eq!(refusal.cause, BulkheadCause::QueueFull { waiting: 2 });
    assert_eq!(refusal.to_string(), "queue full for work: 1 of 1 in use, 2 waiting");
    let mut other = ManualCaller::waiting(other.acquire()); // each waiters has its own bound
    drop(inside);
    drop(waiters[0].outcome().unwrap());
    drop(waiters[1].outcome().unwrap());
    drop(other.outcome().unwrap());
    assert_eq!(work.status().counts.queue_full, 1);
}

#[test]
fn equal_importance_is_admitted_by_arrival_order() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("a", Class::new()), ("b", Class::new())]);
    let classes = ["b", "a", "a", "b"].map(|name| bulkhead.class(name).unwrap());
    let mut inside = classes[0].try_acquire().unwrap();
    let mut waiters = classes.map(|class| ManualCaller::waiting(class.acquire()));
    for caller in &mut waiters {
        drop(inside);
        inside = caller.outcome().unwrap();
    }
}

#[test]
fn a_free_permit_goes_to_the_most_important_eligible_class() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(
        &clock,
        2,
        &[("low", Class::new()), ("high", Class::new().importance(9).max(1)), ("middle", Class::new().importance(5))],
    );
    let [low, high, middle] = ["low", "high", "middle"].map(|name| bulkhead.class(name).unwrap());
    let mut inside = fill(&low, 2);
    let mut first_low = ManualCaller::waiting(low.acquire());
    let mut in_middle = ManualCaller::waiting(middle.acquire());
    let (mut first_high, mut second_high) =
        (ManualCaller::waiting(high.acquire()), ManualCaller::waiting(high.acquire()));
    inside.pop();
    let important = first_high.outcome().unwrap();
    inside.pop(); // the other important class may not use it: it is at its max
    second_high.assert_still_pending();
    let in_middle = in_middle.outcome().unwrap();
    first_low.assert_still_pending();
    drop(important);
    let important = second_high.outcome().unwrap();
    drop(in_middle);
    drop(first_low.outcome().unwrap());
    drop(important);
    assert_eq!(bulkhead.status().in_use, 0);
}

#[test]
fn a_released_reserved_permit_goes_only_to_its_class() {
    let clock = ManualClock::new();
    let classes = [("writes", Class::new().reserve(1)), ("reads", Class::new().importance(9))];
    let bulkhead = bulkhead(&clock, 2, &classes);
    let (writes, reads) = (bulkhead.class("writes").unwrap(), bulkhead.class("reads").unwrap());
    let mut writing = fill(&writes, 2);
    let mut read = ManualCaller::waiting(reads.acquire());
    let mut write = ManualCaller::waiting(writes.acquire());
    writing.pop(); // one of two: the unreserved one
    let reading = read.outcome().unwrap();
    write.assert_still_pending();
    let mut read = ManualCaller::waiting(reads.acquire());
    writing.pop(); // the reserved one
    read.assert_still_pending();
    drop(write.outcome().unwrap());
    read.assert_still_pending();
    drop(reading);
    drop(read.outcome().unwrap());
}

#[test]
fn a_caller_that_moves_to_another_task_is_woken_there() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.try_acquire().unwrap();
    let mut caller = ManualCaller::waiting(work.acquire());
    caller.change_waker();
    assert!(caller.poll().is_pending());
    drop(inside);
    drop(caller.outcome().unwrap());
}

#[test]
fn a_clock_that_steps_back_blocks_no_waiter_forever() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().wait(ms(100)))]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.try_acquire().unwrap();
    let mut caller = ManualCaller::waiting(work.acquire());
    let begun = clock.now();
    clock.set(sluicegate::Timestamp::from_nanos(begun.as_nanos() - 1_000_000_000));
    caller.assert_still_pending();
    clock.set(begun + ms(100));
    assert!(caller.outcome().is_err());
    drop(inside);
    assert!(work.try_acquire().is_ok());
}
