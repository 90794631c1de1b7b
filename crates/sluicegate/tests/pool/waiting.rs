//! Lines: order, deadlines, bounds.

use std::task::Poll;
use std::time::Duration;

use sluicegate::clock::{Clock, ManualClock};
use sluicegate::pool::{Cause, Class};

use super::support::*;

#[test]
fn first_in_first_out_and_nobody_passes_the_line() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let mut inside = work.enter().unwrap();
    let mut line: Vec<_> = (0..4).map(|_| Caller::waiting(work.acquire())).collect();
    for place in 0..4 {
        drop(inside);
        assert!(work.enter().is_err(), "the free place is promised already");
        inside = line[place].outcome().unwrap();
        line[place + 1..].iter_mut().for_each(Caller::waits_on);
    }
    drop(inside);
    assert_eq!((work.status().in_use, work.status().waiting, clock.alarms()), (0, 0, 0));
}

#[test]
fn who_has_waited_long_enough_is_refused_at_its_deadline_and_not_before() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("reports", Class::new().wait(ms(500)))]);
    let reports = bulkhead.class("reports").unwrap();
    let inside = reports.enter().unwrap();
    let mut caller = Caller::waiting(reports.acquire());
    let mut patient = Caller::waiting(reports.acquire().within(Duration::MAX));
    clock.advance(ms(500) - NANO);
    caller.waits_on();
    clock.advance(NANO);
    let refusal = caller.outcome().unwrap_err();
    assert_eq!((refusal.cause, refusal.waited, refusal.retry_after()), (Cause::NoPlace, ms(500), None));
    assert_eq!(refusal.to_string(), "no place for reports: 1 of 1 in use; waited 500ms");
    assert!(matches!(caller.poll(), Poll::Pending), "done, and nothing more to come");
    clock.advance(Duration::from_secs(1_000_000));
    patient.waits_on();
    drop(inside);
    drop(patient.outcome().unwrap());
    let counts = reports.status().counts;
    assert_eq!((counts.entered, counts.no_place), (2, 1));
    assert_eq!(counts.longest_wait, Duration::from_secs(1_000_000) + ms(500));
}

#[test]
fn a_place_that_comes_free_at_the_very_deadline_is_in_time_and_one_after_it_goes_to_the_next() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().wait(ms(100)))]);
    let work = bulkhead.class("work").unwrap();
    for (late, in_time) in [(Duration::ZERO, true), (NANO, false)] {
        let inside = work.enter().unwrap();
        let mut first = Caller::waiting(work.acquire());
        let mut second = Caller::waiting(work.acquire().within(secs(1)));
        clock.advance(ms(100) + late);
        drop(inside); // before the first is polled again
        assert_eq!(first.outcome().is_ok(), in_time);
        drop(second.outcome().unwrap());
    }
}

#[test]
fn zero_is_refused_at_once_and_a_free_place_is_taken_all_the_same() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().wait(Duration::ZERO).max_waiting(0))]);
    let work = bulkhead.class("work").unwrap();
    let place = work.acquire().blocking().unwrap();
    let refusal = work.acquire().blocking().unwrap_err();
    assert_eq!((refusal.cause, refusal.waited), (Cause::NoPlace, Duration::ZERO));
    drop(place);
    assert!(work.acquire().blocking().is_ok());
    assert_eq!(clock.alarms(), 0);
}

#[test]
fn a_line_is_bounded() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().max_waiting(2)), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    let inside = work.enter().unwrap();
    let mut line = [Caller::waiting(work.acquire()), Caller::waiting(work.acquire())];
    let refusal = work.acquire().blocking().unwrap_err();
    assert_eq!(refusal.cause, Cause::LineFull { waiting: 2 });
    assert_eq!(refusal.to_string(), "no place for work: 1 of 1 in use and 2 waiting");
    let mut other = Caller::waiting(other.acquire()); // each line has its own bound
    drop(inside);
    drop(line[0].outcome().unwrap());
    drop(line[1].outcome().unwrap());
    drop(other.outcome().unwrap());
    assert_eq!(work.status().counts.line_full, 1);
}

#[test]
fn among_equals_who_came_first_goes_first_whatever_its_class() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("a", Class::new()), ("b", Class::new())]);
    let classes = ["b", "a", "a", "b"].map(|name| bulkhead.class(name).unwrap());
    let mut inside = classes[0].enter().unwrap();
    let mut line = classes.map(|class| Caller::waiting(class.acquire()));
    for caller in &mut line {
        drop(inside);
        inside = caller.outcome().unwrap();
    }
}

#[test]
fn a_free_place_goes_to_the_most_important_who_may_have_it() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(
        &clock,
        2,
        &[("low", Class::new()), ("high", Class::new().importance(9).max(1)), ("middle", Class::new().importance(5))],
    );
    let [low, high, middle] = ["low", "high", "middle"].map(|name| bulkhead.class(name).unwrap());
    let mut inside = fill(&low, 2);
    let mut first_low = Caller::waiting(low.acquire());
    let mut in_middle = Caller::waiting(middle.acquire());
    let (mut first_high, mut second_high) = (Caller::waiting(high.acquire()), Caller::waiting(high.acquire()));
    inside.pop();
    let important = first_high.outcome().unwrap();
    inside.pop(); // the other important one may not have it: its class uses its most
    second_high.waits_on();
    let in_middle = in_middle.outcome().unwrap();
    first_low.waits_on();
    drop(important);
    let important = second_high.outcome().unwrap();
    drop(in_middle);
    drop(first_low.outcome().unwrap());
    drop(important);
    assert_eq!(bulkhead.status().in_use, 0);
}

#[test]
fn a_reserved_place_that_comes_free_goes_to_its_own_class_alone() {
    let clock = ManualClock::new();
    let classes = [("writes", Class::new().reserve(1)), ("reads", Class::new().importance(9))];
    let bulkhead = bulkhead(&clock, 2, &classes);
    let (writes, reads) = (bulkhead.class("writes").unwrap(), bulkhead.class("reads").unwrap());
    let mut writing = fill(&writes, 2);
    let mut read = Caller::waiting(reads.acquire());
    let mut write = Caller::waiting(writes.acquire());
    writing.pop(); // one of two: the unreserved one
    let reading = read.outcome().unwrap();
    write.waits_on();
    let mut read = Caller::waiting(reads.acquire());
    writing.pop(); // the reserved one
    read.waits_on();
    drop(write.outcome().unwrap());
    read.waits_on();
    drop(reading);
    drop(read.outcome().unwrap());
}

#[test]
fn a_caller_that_moves_to_another_task_is_woken_there() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.enter().unwrap();
    let mut caller = Caller::waiting(work.acquire());
    caller.change_waker();
    assert!(caller.poll().is_pending());
    drop(inside);
    drop(caller.outcome().unwrap());
}

#[test]
fn a_clock_that_steps_back_keeps_nobody_out_for_ever() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().wait(ms(100)))]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.enter().unwrap();
    let mut caller = Caller::waiting(work.acquire());
    let begun = clock.now();
    clock.set(sluicegate::Timestamp::from_nanos(begun.as_nanos() - 1_000_000_000));
    caller.waits_on();
    clock.set(begun + ms(100));
    assert!(caller.outcome().is_err());
    drop(inside);
    assert!(work.enter().is_ok());
}
