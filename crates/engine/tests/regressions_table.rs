//! Regression tests of the table; each test explains the bug it guards against.

use crate::support;

use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{KeyedLimiter, Limiter};
use sluicegate_testkit::bound::{self, AdmissionEvent};
use support::*;

/// An unknown key inherited the overflow slot's window with its end, which may be near. A window aligned to
/// first use was then too short, and several such windows in sequence admitted more than twice the limit within
/// the length of one.
#[test]
fn an_unknown_key_does_not_inherit_an_expiring_window() {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u64> =
        Limiter::builder().limit(fixed(4, secs(1))).clock(clock.clone()).build_keyed(1).unwrap();
    let mut history = Vec::new();
    let mut take = |cost| {
        for _ in 0..cost {
            if limiter.check(&0).is_allowed() {
                history.push(AdmissionEvent { at: clock.now().as_nanos(), cost: 1 });
            }
        }
    };
    let touch = |keys: &[u64]| assert!(keys.iter().all(|key| limiter.check(key).is_allowed()));
    let many: Vec<u64> = (1..=18).collect();
    touch(&many);
    clock.advance(ms(500));
    // The nineteenth slot is taken; the next key evicts one with a window that ends at 1 s into the overflow slot.
    touch(&[200, 100]);
    clock.advance(ms(400));
    take(4);
    clock.advance(ms(100));
    // All keys start fresh windows; one more evicts a key with a window that ends at 1.5 s.
    touch(&many[1..]);
    touch(&[300]);
    clock.advance(ms(400));
    take(4);
    clock.advance(ms(100));
    take(4);
    bound::any_window(&history, 8, 1_000_000_000).unwrap_or_else(|broken| panic!("{broken}"));
}
