//! Most, reserve and total, without waiting.

use std::panic::{AssertUnwindSafe, catch_unwind};

use sluicegate::clock::ManualClock;
use sluicegate::pool::{Cause, Class, Place};

use super::support::*;

#[test]
fn a_class_uses_its_most_and_leaves_the_others_their_reserve() {
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
    let refusal = reports.enter().unwrap_err();
    assert_eq!((refusal.cause, refusal.in_use, refusal.max), (Cause::NoPlace, 3, 3));
    assert_eq!(refusal.to_string(), "no place for reports: 3 of 3 in use");

    let reading = fill(&reads, 12);
    let refusal = reads.enter().unwrap_err();
    assert_eq!(refusal.to_string(), "no place for reads: 12 of 15 in use, the others taken or reserved");

    let writing = fill(&writes, 5); // its reserve, while the others have taken all they can
    assert!(writes.enter().is_err());
    assert_eq!((bulkhead.status().total, bulkhead.status().in_use), (20, 20));

    drop(writing);
    assert!(reads.enter().is_err(), "reserved places go to nobody else");
    drop(reporting);
    let more = fill(&reads, 3);
    assert!(reads.enter().is_err(), "its most");
    drop((reading, more));
    assert_eq!(bulkhead.status().in_use, 0);
    let _all = fill(&writes, 20);
}

#[test]
fn a_place_comes_back_however_the_work_ends() {
    let clock = ManualClock::new();
    let bulkhead = bulkhead(&clock, 1, &[("work", Class::new())]);
    let work = bulkhead.class("work").unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _place = work.enter().unwrap();
        panic!("the work fails");
    }));
    assert!(panicked.is_err());
    let place = work.enter().unwrap();
    std::thread::spawn(move || drop(place)).join().unwrap();
    let held = work.enter().unwrap().hold(String::from("a connection"));
    assert_eq!(held.len(), 12);
    assert!(work.enter().is_err());
    drop(held);
    assert_eq!(work.status().counts.entered, 3);
    assert_eq!(work.status().in_use, 0);
}

#[test]
fn what_lives_in_a_place_is_gone_before_the_place_is_free() {
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
    drop(work.enter().unwrap().hold(connection));
    assert_eq!(still_in_use.into_inner(), 1);
    assert_eq!(work.status().in_use, 0);
}

#[test]
fn a_place_goes_anywhere() {
    const fn anywhere<T: Send + Sync + 'static>() {}
    anywhere::<Place>();
    anywhere::<sluicegate::pool::Entrance>();
    anywhere::<sluicegate::pool::InLine>();
}
