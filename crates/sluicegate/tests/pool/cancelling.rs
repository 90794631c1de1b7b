//! Callers who go away, at any point.

use sluicegate::clock::ManualClock;
use sluicegate::pool::Class;

use super::support::*;

#[test]
fn who_goes_away_leaves_the_line_and_the_next_moves_up() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.enter().unwrap();
    let first = Caller::waiting(work.acquire());
    let second = Caller::waiting(work.acquire());
    let mut third = Caller::waiting(work.acquire());
    drop(second);
    drop(first);
    assert_eq!((work.status().waiting, clock.alarms()), (1, 1));
    drop(inside);
    drop(third.outcome().unwrap());
    assert_eq!((work.status().in_use, work.status().counts.gone, clock.alarms()), (0, 2, 0));
}

#[test]
fn a_place_given_to_somebody_who_has_gone_is_passed_on() {
    // The classic lost wake-up: the place is given to the first, which is woken, but dropped before it
    // is polled. If its wake-up were lost with it, the second would wait for ever beside a free place.
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new()), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    let inside = work.enter().unwrap();
    let first = Caller::waiting(work.acquire());
    let second = Caller::waiting(other.acquire());
    let mut third = Caller::waiting(work.acquire());
    drop(inside);
    assert!(first.is_woken() && !second.is_woken() && !third.is_woken());
    drop(first);
    assert!(second.is_woken() && !third.is_woken());
    drop(second);
    drop(third.outcome().unwrap());
    assert_eq!((bulkhead.status().in_use, clock.alarms()), (0, 0));
}

#[test]
fn a_place_given_to_somebody_who_has_gone_counts_as_nothing() {
    let clock = ManualClock::new();
    let class = Class::new().limit("1/1h".parse().unwrap());
    let bulkhead = bulkhead(&clock, 1, &[("other", Class::new()), ("work", class)]);
    let (other, work) = (bulkhead.class("other").unwrap(), bulkhead.class("work").unwrap());
    let inside = other.enter().unwrap();
    let caller = Caller::waiting(work.acquire());
    drop(inside); // gives the place, and takes from the limit
    drop(caller);
    assert_eq!(work.status().counts.entered, 0);
    assert!(work.enter().is_ok(), "the limit has got back what was taken");
}

#[test]
fn a_future_never_polled_was_never_there() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    drop(work.acquire());
    drop(work.run(async {}));
    assert_eq!(work.status().counts, Default::default());
}

#[tokio::test]
async fn work_is_dropped_before_its_place_is_free_and_not_begun_without_one() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().wait(ms(0)))]);
    let work = bulkhead.class("work").unwrap();
    let outcome = work.run(async { (work.status().in_use, work.run(async { panic!("no place") }).await.is_err()) });
    assert_eq!(outcome.await.unwrap(), (1, true));
    let cancelled = tokio::task::unconstrained(work.run(std::future::pending::<()>()));
    tokio::select! {
        biased;
        _ = cancelled => unreachable!("it never ends"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(work.status().in_use, 0);
    let entrance = work.clone();
    let panicked = tokio::spawn(async move { entrance.run(async { panic!("the work fails") }).await }).await;
    assert!(panicked.is_err());
    assert_eq!((work.status().in_use, work.status().counts.entered), (0, 3));
}
