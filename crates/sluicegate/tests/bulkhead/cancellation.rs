//! Callers who go away, at any point.

use sluicegate::bulkhead::Class;
use sluicegate::clock::ManualClock;

use super::support::*;

#[test]
fn a_dropped_waiter_leaves_the_queue_and_the_next_moves_up() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let inside = work.try_acquire().unwrap();
    let first = ManualCaller::waiting(work.acquire());
    let second = ManualCaller::waiting(work.acquire());
    let mut third = ManualCaller::waiting(work.acquire());
    drop(second);
    drop(first);
    assert_eq!((work.status().waiting, clock.pending_timers()), (1, 1));
    drop(inside);
    drop(third.outcome().unwrap());
    assert_eq!((work.status().in_use, work.status().counts.cancelled, clock.pending_timers()), (0, 2, 0));
}

#[test]
fn a_permit_granted_to_a_dropped_waiter_is_passed_on() {
    // Lost wake-up: the permit is granted to the first waiter, which is woken but dropped before it is polled. If
    // the wake-up were lost, the second would wait forever although a permit is free.
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new()), ("other", Class::new())]);
    let (work, other) = (bulkhead.class("work").unwrap(), bulkhead.class("other").unwrap());
    let inside = work.try_acquire().unwrap();
    let first = ManualCaller::waiting(work.acquire());
    let second = ManualCaller::waiting(other.acquire());
    let mut third = ManualCaller::waiting(work.acquire());
    drop(inside);
    assert!(first.is_woken() && !second.is_woken() && !third.is_woken());
    drop(first);
    assert!(second.is_woken() && !third.is_woken());
    drop(second);
    drop(third.outcome().unwrap());
    assert_eq!((bulkhead.status().in_use, clock.pending_timers()), (0, 0));
}

#[test]
fn a_permit_granted_to_a_dropped_waiter_is_not_counted() {
    let clock = ManualClock::new();
    let class = Class::new().limit("1/1h".parse().unwrap());
    let bulkhead = bulkhead(&clock, 1, &[("other", Class::new()), ("work", class)]);
    let (other, work) = (bulkhead.class("other").unwrap(), bulkhead.class("work").unwrap());
    let inside = other.try_acquire().unwrap();
    let caller = ManualCaller::waiting(work.acquire());
    drop(inside); // grants the permit, and charges the limit
    drop(caller);
    assert_eq!(work.status().counts.admitted, 0);
    assert!(work.try_acquire().is_ok(), "the limit has got back what was taken");
}

#[test]
fn a_future_never_polled_never_joins_the_queue() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    drop(work.acquire());
    drop(work.run(async {}));
    assert_eq!(work.status().counts, Default::default());
}

#[tokio::test]
async fn work_is_dropped_before_its_permit_is_released_and_never_starts_without_one() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new().wait(ms(0)))]);
    let work = bulkhead.class("work").unwrap();
    let outcome =
        work.run(async { (work.status().in_use, work.run(async { panic!("runs without a permit") }).await.is_err()) });
    assert_eq!(outcome.await.unwrap(), (1, true));
    let cancelled = tokio::task::unconstrained(work.run(std::future::pending::<()>()));
    tokio::select! {
        biased;
        _ = cancelled => unreachable!("it never ends"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(work.status().in_use, 0);
    let handle = work.clone();
    let panicked = tokio::spawn(async move { handle.run(async { panic!("the work fails") }).await }).await;
    assert!(panicked.is_err());
    assert_eq!((work.status().in_use, work.status().counts.admitted), (0, 3));
}
