//! Numbers that do not fit, and names that are not there.

use std::time::Duration;

use sluicegate::bulkhead::{Bulkhead, BulkheadError, Class};

type Classes<'c> = &'c [(&'c str, Class)];

fn build_error(permits: usize, classes: Classes<'_>) -> BulkheadError {
    let builder = Bulkhead::builder(permits);
    let builder = classes.iter().fold(builder, |builder, (name, class)| builder.class(name, class.clone()));
    builder.build().unwrap_err()
}

#[test]
fn invalid_sizes_are_reported_with_the_remedy() {
    let plain = Class::new;
    let cases: [(usize, Classes<'_>, &str); 7] = [
        (0, &[("reads", plain())], "the capacity of a bulkhead is 0: it must be at least 1"),
        (5, &[], "a bulkhead has no classes: add one with `class`"),
        (5, &[("a", plain()), ("b", plain()), ("a", plain())], "duplicate class a: give each class a different name"),
        (5, &[("a", plain().max(0))], "max of a is 0: it must be at least 1"),
        (
            5,
            &[("a", plain().max(6))],
            "max of a is 6, but the capacity is 5: lower it, or omit it to allow the full capacity",
        ),
        (5, &[("a", plain().max(2).reserve(3))], "reserve of a is 3, but its max is 2: lower the reserve or raise max"),
        (
            5,
            &[("a", plain().reserve(3)), ("b", plain()), ("c", plain().reserve(3))],
            "3 for a, 3 for c are reserved, but the capacity is 5: lower a reserve or raise the capacity",
        ),
    ];
    for (capacity, classes, message) in cases {
        assert_eq!(build_error(capacity, classes).to_string(), message);
    }
}

#[test]
fn huge_numbers_neither_overflow_nor_panic() {
    let huge = Class::new().reserve(usize::MAX).wait(Duration::MAX).max_waiting(usize::MAX).importance(u8::MAX);
    let many = [("a", huge.clone()), ("b", huge.clone())];
    assert!(matches!(build_error(usize::MAX, &many), BulkheadError::ReservesTooLarge { .. }));
    let bulkhead = Bulkhead::builder(usize::MAX).class("a", huge).class("b", Class::new()).build().unwrap();
    let (a, b) = (bulkhead.class("a").unwrap(), bulkhead.class("b").unwrap());
    let _place = a.acquire().blocking().unwrap();
    assert!(b.try_acquire().is_err(), "everything is reserved");
}

#[test]
fn too_many_limits_are_reported_with_their_class() {
    let limits = (0..=sluicegate::MAX_LIMITS).map(|_| "1/s".parse().unwrap());
    let class = limits.fold(Class::new(), Class::limit);
    let error = build_error(1, &[("reads", class)]);
    assert!(matches!(error, BulkheadError::Limit { .. }));
    assert!(error.to_string().starts_with("limit of reads: "), "{error}");
}

#[test]
fn an_unknown_class_is_an_error_at_lookup() {
    let bulkhead = Bulkhead::builder(1).class("writes", Class::new()).class("reads", Class::new()).build().unwrap();
    let error = bulkhead.class("raeds").unwrap_err();
    assert_eq!(error.to_string(), "unknown class raeds: expected one of writes, reads");
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
