//! Maximum, reserve and capacity, without waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sluicegate::bulkhead::{BulkheadCause, BulkheadPermit, Class};
use sluicegate::clock::ManualClock;

use super::support::*;

#[test]
fn a_class_is_capped_by_its_max_and_the_reserves_of_others() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(
        &clock,
        20,
        &[
            ("writes", Class::new().reserve(5)),
            ("reads", Class::new().max(15)),
            ("reports", Class::new().max(3).wait(ms(0))),
        ],
    );
    let [writes, reads, reports] = ["writes", "reads", "reports"].map(|name| bulkhead.class(name).unwrap());

    let reporting = fill(&reports, 3);
    let refusal = reports.try_acquire().unwrap_err();
    assert_eq!((refusal.cause, refusal.in_use, refusal.max), (BulkheadCause::NoPermit, 3, 3));
    assert_eq!(refusal.to_string(), "no permit for reports: 3 of 3 in use");

    let reading = fill(&reads, 12);
    let refusal = reads.try_acquire().unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "no permit for reads: 12 of 15 in use, the rest is used by or reserved for other classes"
    );

    let writing = fill(&writes, 5); // its reserve, while the others have taken all they can
    assert!(writes.try_acquire().is_err());
    assert_eq!((bulkhead.status().total, bulkhead.status().in_use), (20, 20));

    drop(writing);
    assert!(reads.try_acquire().is_err(), "reserved permits go to no other class");
    drop(reporting);
    let more = fill(&reads, 3);
    assert!(reads.try_acquire().is_err(), "at its max");
    drop((reading, more));
    assert_eq!(bulkhead.status().in_use, 0);
    let _all = fill(&writes, 20);
}

#[test]
fn a_permit_is_released_however_the_work_ends() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _place = work.try_acquire().unwrap();
        panic!("the work fails");
    }));
    assert!(panicked.is_err());
    let permit = work.try_acquire().unwrap();
    std::thread::spawn(move || drop(permit)).join().unwrap();
    let held = work.try_acquire().unwrap().guard(String::from("a connection"));
    assert_eq!(held.len(), 12);
    assert!(work.try_acquire().is_err());
    drop(held);
    assert_eq!(work.status().counts.admitted, 3);
    assert_eq!(work.status().in_use, 0);
}

#[test]
fn a_guarded_value_is_dropped_before_its_permit() {
    struct Connection<F: Fn()>(F);
    impl<F: Fn()> Drop for Connection<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let still_in_use = std::sync::atomic::AtomicUsize::new(0);
    let connection = Connection(|| {
        still_in_use.store(work.status().in_use, std::sync::atomic::Ordering::SeqCst);
    });
    drop(work.try_acquire().unwrap().guard(connection));
    assert_eq!(still_in_use.into_inner(), 1);
    assert_eq!(work.status().in_use, 0);
}

#[test]
fn a_permit_is_send_sync_and_static() {
    const fn assert_send_sync<T: Send + Sync + 'static>() {}
    assert_send_sync::<BulkheadPermit>();
    assert_send_sync::<sluicegate::bulkhead::ClassHandle>();
    assert_send_sync::<sluicegate::bulkhead::AcquirePermit>();
}
