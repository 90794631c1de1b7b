//! Saved and restored state: the same decisions or a clear error, and never a panic.

use crate::support;

use proptest::prelude::*;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::rule::{Attribute, Ban, Lists, Request, Rule};
use sluicegate_engine::sluice::SavedRules;
use sluicegate_engine::{KeyedLimiter, Limit, Limiter, RestoreError, SavedState, Sluice};
use sluicegate_testkit::random::SplitMix64;
use support::*;

fn kinds() -> Vec<Limit> {
    vec![
        bucket("7/s", 9),
        Limit::bandwidth(rate("7/s"), 9).unwrap(),
        leaky("7/s", 9),
        fixed(9, secs(2)),
        Limit::fixed_window(9, secs(2), sluicegate_engine::algorithm::Alignment::Epoch).unwrap(),
        sliding(9, secs(2), 10),
        Limit::interpolated_window(9, secs(2)).unwrap(),
        log(9, secs(2)),
        log(60, secs(2)),
        Limit::warm_up(rate("2/s"), secs(4), 3).unwrap(),
    ]
}

/// Every kind of limit alone, and all together.
fn limit_sets() -> Vec<Vec<Limit>> {
    kinds().into_iter().map(|kind| vec![kind]).chain([kinds()]).collect()
}

fn through_bytes(saved: SavedState) -> SavedState {
    SavedState::from_bytes(saved.into_bytes()).unwrap()
}

#[test]
fn a_restored_limiter_decides_as_the_saved_one_would_have() {
    for limits in limit_sets() {
        for reservable in [false, true] {
            let mut dice = SplitMix64::new(5);
            let clock = ManualClock::new();
            let builder = || {
                let builder = Limiter::builder().limits(limits.iter().copied()).clock(clock.clone());
                if reservable { builder.reservable() } else { builder }
            };
            let unkeyed = builder().build().unwrap();
            let keyed: KeyedLimiter<u64> = builder().build_keyed(500).unwrap();
            for _ in 0..500 {
                clock.advance(ms(dice.below(20)));
                unkeyed.check_cost(dice.below(3));
                keyed.check_cost(&dice.below(50), dice.below(3));
            }
            let unkeyed_restored = builder().restore(&through_bytes(unkeyed.save())).unwrap();
            let keyed_restored = builder().restore_keyed(&through_bytes(keyed.save()), 500).unwrap();
            for _ in 0..500 {
                clock.advance(ms(dice.below(20)));
                let (key, cost) = (dice.below(50), dice.below(3));
                assert_eq!(unkeyed.check_cost(cost), unkeyed_restored.check_cost(cost), "{limits:?}");
                assert_eq!(keyed.check_cost(&key, cost), keyed_restored.check_cost(&key, cost), "{limits:?}");
            }
            assert_eq!(through_bytes(unkeyed.save()).into_bytes(), unkeyed_restored.save().into_bytes());
        }
    }
}

#[test]
fn the_overflow_slot_survives_a_restart() {
    let clock = ManualClock::new();
    let builder = || Limiter::builder().limit(bucket("1/h", 3)).clock(clock.clone());
    let before: KeyedLimiter<u64> = builder().build_keyed(5).unwrap();
    let mut spent = [0; 60];
    for (key, spent) in (0..).zip(&mut spent) {
        *spent += (0..2).filter(|_| before.check(&key).is_allowed()).count();
    }
    let after: KeyedLimiter<u64> = builder().restore_keyed(&through_bytes(before.save()), 5).unwrap();
    for (key, spent) in (0..).zip(&mut spent) {
        *spent += (0..5).filter(|_| after.check(&key).is_allowed()).count();
        assert!(*spent <= 3, "key {key}: {spent}");
    }
}

#[test]
fn permits_and_reservations_are_not_restored() {
    let clock = ManualClock::new();
    let builder = || Limiter::builder().limits([permits(2), bucket("1/s", 9)]).clock(clock.clone()).reservable();
    let unkeyed = builder().build().unwrap();
    let keyed: KeyedLimiter<str> = builder().build_keyed(10).unwrap();
    let held = [unkeyed.enter(1).unwrap(), unkeyed.enter(1).unwrap(), keyed.enter("a", 1).unwrap()];
    let restored = builder().restore(&through_bytes(unkeyed.save())).unwrap();
    let keyed_restored: KeyedLimiter<str> = builder().restore_keyed(&through_bytes(keyed.save()), 10).unwrap();
    assert_eq!(restored.status().iter().map(|status| status.remaining).collect::<Vec<_>>(), [2, 7]);
    assert_eq!(keyed_restored.status("a").iter().map(|status| status.remaining).collect::<Vec<_>>(), [2, 8]);
    clock.advance(secs(60));
    assert_eq!(restored.status()[1].remaining, 9, "no caller is left to settle, so nothing stays reserved");
    drop(held);
    assert_eq!(restored.status()[0].remaining, 2);
}

#[test]
fn restore_accepts_changed_limits() {
    let clock = ManualClock::new();
    let builder = |limit| Limiter::builder().limit(limit).clock(clock.clone());
    let old = bucket("1/m", 10);
    let before: KeyedLimiter<str> = builder(old).build_keyed(10).unwrap();
    assert!(before.check_cost("a", 8).is_allowed());
    let saved = through_bytes(before.save());
    for new in [bucket("1/m", 20), leaky("1/m", 5), log(100, secs(60)), fixed(3, secs(60))] {
        let after: KeyedLimiter<str> = builder(new).restore_keyed(&saved, 10).unwrap();
        assert_eq!(after.limits(), [new]);
        assert_eq!(after.status("a")[0].remaining, 2, "{new}");
        assert_eq!(after.status("b")[0].remaining, new.capacity(), "{new}");
    }
    let reservable: KeyedLimiter<str> = builder(old).reservable().restore_keyed(&saved, 10).unwrap();
    assert_eq!(reservable.status("a")[0].remaining, 2);
}

#[test]
fn restore_errors_are_distinct() {
    let clock = ManualClock::new();
    let builder = || Limiter::builder().limit(bucket("1/m", 10)).clock(clock.clone());
    let keyed: KeyedLimiter<str> = builder().build_keyed(1_000).unwrap();
    keyed.check("a");
    let (keyed, unkeyed) = (keyed.save(), builder().build().unwrap().save());
    let restore = |saved: &SavedState, capacity| builder().restore_keyed::<str>(saved, capacity).map(drop);
    assert_eq!(restore(&keyed, 1_000), Ok(()));
    assert_eq!(restore(&unkeyed, 1_000), Err(RestoreError::KindMismatch));
    assert_eq!(builder().restore(&keyed).map(drop), Err(RestoreError::KindMismatch));
    assert!(matches!(restore(&keyed, 0), Err(RestoreError::Limit(_))));
    assert!(matches!(Limiter::builder().clock(clock.clone()).restore(&unkeyed), Err(RestoreError::Limit(_))));
    clock.set(clock.now() + secs(7_200));
    let later = builder().build().unwrap().save();
    clock.set(sluicegate_engine::Timestamp::from_nanos(clock.now().as_nanos() - 3_600_000_000_000));
    assert!(builder().restore(&later).is_ok(), "one hour ahead means a changed clock");
    clock.set(sluicegate_engine::Timestamp::from_nanos(clock.now().as_nanos() - 1));
    assert_eq!(builder().restore(&later).map(drop), Err(RestoreError::FromTheFuture));
}

/// Operators change the capacity at a restart. Every key must be at least as limited as before.
#[test]
fn restore_accepts_another_capacity() {
    let clock = ManualClock::new();
    let builder = || Limiter::builder().limit(bucket("1/h", 10)).clock(clock.clone());
    let before: KeyedLimiter<u64> = builder().build_keyed(1_000).unwrap();
    assert!((0..900).all(|key| before.check_cost(&key, key % 10).is_allowed()));
    let saved = through_bytes(before.save());
    for capacity in [500, 999, 1_000, 1_001, 1_700, 20_000] {
        let after: KeyedLimiter<u64> = builder().restore_keyed(&saved, capacity).unwrap();
        let mut exact = 0;
        for key in 0..900 {
            let (left, was_left) = (after.status(&key)[0].remaining, 10 - key % 10);
            assert!(left <= was_left, "key {key} of {capacity} has {left}, expected {was_left}");
            exact += u32::from(left == was_left);
        }
        // Some keys are stricter than before: in an overflowing bucket, unknown keys start with less.
        assert!(capacity < 1_000 || exact > 800, "only {exact} of 900 keys of {capacity} are unchanged");
        assert!(capacity != 1_000 || exact == 900);
    }
}

#[test]
fn debug_output_hides_the_seed() {
    let limiter: KeyedLimiter<str> = Limiter::builder().limit(bucket("1/m", 1)).build_keyed(10).unwrap();
    assert!(format!("{:?}", limiter.save()).starts_with("SavedState { len:"));
}

fn some_bytes() -> Vec<u8> {
    let clock = ManualClock::new();
    let limiter: KeyedLimiter<u64> = Limiter::builder().limits(kinds()).clock(clock).build_keyed(100).unwrap();
    assert!((0..30).all(|key| limiter.check(&key).is_admitted()));
    limiter.save().into_bytes()
}

#[test]
fn every_flipped_bit_and_missing_byte_is_detected() {
    let bytes = some_bytes();
    for end in 0..bytes.len() {
        assert!(SavedState::from_bytes(bytes[..end].to_vec()).is_err(), "cut after {end}");
    }
    for bit in (0..bytes.len() * 8).step_by(7) {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(SavedState::from_bytes(flipped).is_err(), "bit {bit}");
    }
    let mut longer = bytes;
    longer.push(0);
    assert_eq!(SavedState::from_bytes(longer), Err(RestoreError::Damaged));
    assert_eq!(SavedState::from_bytes(vec![]), Err(RestoreError::Unknown));
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_errors(bytes: Vec<u8>, magic in "slgate\u{0}\u{1}|slrules\u{2}") {
        prop_assert!(SavedState::from_bytes(bytes.clone()).is_err());
        prop_assert!(SavedRules::from_bytes(&bytes).is_err());
        let named = [magic.as_bytes(), &bytes].concat();
        prop_assert!(SavedState::from_bytes(named.clone()).is_err());
        let _ = SavedRules::from_bytes(&named);
    }

    #[test]
    fn damaged_bytes_are_errors(at: prop::sample::Index, with: Vec<u8>) {
        let mut bytes = some_bytes();
        let at = at.index(bytes.len());
        let end = (at + with.len()).min(bytes.len());
        prop_assume!(bytes[at..end] != with[..]);
        bytes.splice(at..end, with);
        prop_assert!(SavedState::from_bytes(bytes).is_err());
    }
}

fn rules() -> Vec<Rule> {
    let mut per_ip = Rule::new("per-ip", [bucket("2/m", 2)]);
    per_ip.key = vec![Attribute::ClientIp.into()];
    per_ip.ban = Some(Ban { after: 3, within: secs(60), duration: secs(600) });
    let mut busy = Rule::new("busy", [permits(3), log(100, secs(60))]);
    busy.key = vec![Attribute::Path.into()];
    vec![Rule::new("all", [sliding(50, secs(60), 10)]), per_ip, busy]
}

fn from(ip: u8) -> Request<'static> {
    Request::new("GET", "/").with_client_ip([10, 0, 0, ip])
}

#[test]
fn a_sluice_restores_limits_and_bans() {
    let clock = ManualClock::new();
    let build = |rules, saved| {
        let builder = Sluice::builder().rules(rules).clock(clock.clone()).memory(1 << 20);
        match saved {
            Some(saved) => builder.restore(saved),
            None => builder,
        }
        .build()
        .unwrap()
    };
    let before: Sluice = build(rules(), None);
    let held = before.decide(&from(1));
    assert!(held.is_admitted());
    for _ in 0..9 {
        let _ = before.decide(&from(66));
    }
    assert_eq!(before.bans().len(), 1);
    clock.advance(secs(100));
    let bytes = before.save().to_bytes();
    let saved = SavedRules::from_bytes(&bytes).unwrap();
    assert_eq!(saved, before.save());

    let after = build(rules(), Some(saved.clone()));
    for sluice in [&before, &after] {
        let banned = sluice.decide(&from(66));
        assert_eq!(banned.verdict(), sluicegate_engine::Verdict::Denied { retry_after: Some(secs(500)) });
    }
    let explained = |sluice: &Sluice, ip| {
        let rules = sluice.explain(&from(ip)).rules;
        rules.into_iter().map(|rule| (rule.key, rule.banned, rule.decision.unwrap().status)).collect::<Vec<_>>()
    };
    for ip in [2, 3, 66] {
        assert_eq!(explained(&after, ip)[..2], explained(&before, ip)[..2], "{ip}");
    }
    assert_eq!(explained(&after, 1)[2].2.remaining, 3, "permits were not saved");
    drop(held);

    // Some rules are new, some removed, some changed: each is restored independently.
    let mut changed = rules();
    changed.remove(0);
    changed[0].limits = vec![bucket("2/m", 1)];
    changed.push(Rule::new("new", [bucket("1/s", 1)]));
    let other = build(changed, Some(saved));
    assert!(!other.decide(&from(66)).is_admitted());
    assert!(other.decide(&from(9)).is_admitted());
    other.replace(rules(), Lists::default()).unwrap();
    assert!(!other.decide(&from(66)).is_admitted());
    clock.advance(secs(500));
    assert!(other.decide(&from(66)).is_admitted(), "the ban ends to the second");
}
