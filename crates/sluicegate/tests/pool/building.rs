//! Numbers that do not fit, and names that are not there.

use std::time::Duration;

use sluicegate::pool::{Bulkhead, BulkheadError, Class};

type Classes<'c> = &'c [(&'c str, Class)];

fn error(places: usize, classes: Classes<'_>) -> BulkheadError {
    let builder = Bulkhead::builder(places);
    let builder = classes.iter().fold(builder, |builder, (name, class)| builder.class(name, class.clone()));
    builder.build().unwrap_err()
}

#[test]
fn numbers_that_do_not_fit_are_named_with_the_remedy() {
    let plain = Class::new;
    let cases: [(usize, Classes<'_>, &str); 7] = [
        (0, &[("reads", plain())], "a bulkhead of 0 places lets nobody in: it needs at least 1"),
        (5, &[], "a bulkhead without classes lets nobody in: add one with `class`"),
        (5, &[("a", plain()), ("b", plain()), ("a", plain())], "there are two classes a: give each a name of its own"),
        (5, &[("a", plain().max(0))], "max of a is 0: it must be at least 1"),
        (5, &[("a", plain().max(6))], "max of a is 6, but there are 5 places: lower it, or leave it out to allow all"),
        (
            5,
            &[("a", plain().max(2).reserve(3))],
            "reserve of a is 3, but it may use 2 at most: lower the one or raise the other",
        ),
        (
            5,
            &[("a", plain().reserve(3)), ("b", plain()), ("c", plain().reserve(3))],
            "3 for a, 3 for c are reserved, but there are 5 places: lower a reserve or add places",
        ),
    ];
    for (places, classes, message) in cases {
        assert_eq!(error(places, classes).to_string(), message);
    }
}

#[test]
fn huge_numbers_neither_overflow_nor_panic() {
    let huge = Class::new().reserve(usize::MAX).wait(Duration::MAX).max_waiting(usize::MAX).importance(u8::MAX);
    let many = [("a", huge.clone()), ("b", huge.clone())];
    assert!(matches!(error(usize::MAX, &many), BulkheadError::ReservesTooLarge { .. }));
    let bulkhead = Bulkhead::builder(usize::MAX).class("a", huge).class("b", Class::new()).build().unwrap();
    let (a, b) = (bulkhead.class("a").unwrap(), bulkhead.class("b").unwrap());
    let _place = a.acquire().blocking().unwrap();
    assert!(b.enter().is_err(), "everything is reserved");
}

#[test]
fn too_many_limits_are_named_with_their_class() {
    let limits = (0..=sluicegate::MOST_LIMITS).map(|_| "1/s".parse().unwrap());
    let class = limits.fold(Class::new(), Class::limit);
    let error = error(1, &[("reads", class)]);
    assert!(matches!(error, BulkheadError::Limit { .. }));
    assert!(error.to_string().starts_with("limit of reads: "), "{error}");
}

#[test]
fn an_unknown_class_is_found_at_the_start() {
    let bulkhead = Bulkhead::builder(1).class("writes", Class::new()).class("reads", Class::new()).build().unwrap();
    let error = bulkhead.class("raeds").unwrap_err();
    assert_eq!(error.to_string(), "there is no class raeds: there are writes, reads");
}

#[test]
fn an_enum_can_name_classes() {
    enum Work {
        Orders,
    }
    impl AsRef<str> for Work {
        fn as_ref(&self) -> &str {
            match self {
                Self::Orders => "orders",
            }
        }
    }
    let bulkhead = Bulkhead::builder(1).class(Work::Orders, Class::new()).build().unwrap();
    assert_eq!(bulkhead.class(Work::Orders).unwrap().name(), "orders");
}
