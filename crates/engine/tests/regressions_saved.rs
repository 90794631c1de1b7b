//! Regression tests of saved state; each test explains the bug it guards against.

use crate::support;

use std::panic::AssertUnwindSafe;

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::{Attribute, Request, Rule};
use sluicegate_engine::sluice::SavedRules;
use sluicegate_engine::{KeyedLimiter, Limit, Limiter, SavedState, Sluice};
use support::*;

fn saved_rules() -> Vec<u8> {
    let clock = ManualClock::new();
    let mut per_ip = Rule::new("per-ip", [bucket("1/m", 1)]);
    per_ip.key = vec![Attribute::ClientIp.into()];
    let rules = [Rule::new("all", [bucket("1/m", 9)]), per_ip];
    let sluice = Sluice::builder().rules(rules).clock(clock).build().unwrap();
    assert!(sluice.decide(&Request::new("GET", "/").with_client_ip([10, 0, 0, 1])).is_admitted());
    sluice.save().to_bytes()
}

/// Each part had a checksum, but not the frame around them: names, lengths and the hash seed, without which no
/// key is found again.
#[test]
fn no_bit_of_saved_rules_can_flip_unnoticed() {
    let bytes = saved_rules();
    let unnoticed: Vec<usize> = (0..bytes.len() * 8)
        .filter(|bit| {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            SavedRules::from_bytes(&flipped).is_ok()
        })
        .map(|bit| bit / 8)
        .collect();
    assert!(unnoticed.is_empty(), "changes of bytes {unnoticed:?} of {} are not detected", bytes.len());
}

/// Truncated between two rules, the remaining rules were lost without an error.
#[test]
fn saved_rules_cut_short_anywhere_are_damaged() {
    let bytes = saved_rules();
    let unnoticed: Vec<usize> = (0..bytes.len()).filter(|end| SavedRules::from_bytes(&bytes[..*end]).is_ok()).collect();
    assert!(unnoticed.is_empty(), "cut after {unnoticed:?} of {} bytes", bytes.len());
}

/// The checksum detects corruption, not tampering: a file with a valid checksum and invalid data must give an
/// error or a stricter limiter, and no panic.
#[test]
fn invalid_data_with_a_valid_checksum_does_not_panic() {
    use rapidhash::v3::{RapidSecrets, rapidhash_v3_seeded};
    const SECRETS: RapidSecrets = RapidSecrets::seed(0);
    let limits: [Limit; 7] = [
        bucket("10/s", 10),
        leaky("10/s", 10),
        fixed(10, secs(10)),
        sliding(10, secs(10), 10),
        Limit::interpolated_window(10, secs(10)).unwrap(),
        log(10, secs(10)),
        Limit::warm_up(rate("2/s"), secs(4), 3).unwrap(),
    ];
    let mut panicked = Vec::new();
    for limit in limits {
        let clock = ManualClock::new();
        let before: KeyedLimiter<str> = Limiter::builder().limit(limit).clock(clock.clone()).build_keyed(10).unwrap();
        assert!(before.check("a").is_allowed());
        let good = before.save().into_bytes();
        for word in (8..good.len() - 8).step_by(8) {
            for value in [0, 1, 2, 20, u64::from(u32::MAX), 1 << 62, u64::MAX - 1, u64::MAX] {
                let mut bytes = good.clone();
                bytes[word..word + 8].copy_from_slice(&value.to_le_bytes());
                let end = bytes.len() - 8;
                let sum = rapidhash_v3_seeded(&bytes[..end], &SECRETS);
                bytes[end..].copy_from_slice(&sum.to_le_bytes());
                let tried = std::panic::catch_unwind(AssertUnwindSafe(|| {
                    let saved = SavedState::from_bytes(bytes).unwrap();
                    let builder = Limiter::builder().limit(limit).clock(clock.clone());
                    if let Ok(after) = builder.restore_keyed::<str>(&saved, 10) {
                        for key in ["a", "b"] {
                            after.check(key);
                            after.check_cost(key, 5);
                            after.status(key);
                        }
                        after.change([bucket("1/s", 3)]).unwrap();
                        after.check("a");
                    }
                }));
                if tried.is_err() {
                    panicked.push((limit.algorithm(), word / 8, value));
                }
            }
        }
    }
    assert!(panicked.is_empty(), "algorithm, word of the file, value: {panicked:x?}");
}
