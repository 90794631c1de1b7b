//! Ad hoc limits decide like redis-cell and never admit more.

use crate::support;

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::Timestamp;
use sluicegate_engine::adhoc::{AdHoc, AdHocError, ThrottleResult};
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::time::EPOCH_UNIX_SECONDS;
use sluicegate_testkit::arrivals::{Arrival, ArrivalScale, strategy};
use sluicegate_testkit::bound::{self, AdmissionEvent, ExactRate};
use sluicegate_testkit::random::SplitMix64;
use support::*;

const SECOND: Duration = Duration::from_secs(1);

fn limits(capacity: usize) -> (AdHoc, ManualClock) {
    let clock = ManualClock::new();
    (AdHoc::new(capacity, clock.clone()).unwrap(), clock)
}

/// Table from redis-cell's own tests: a limit of five, one per second.
#[test]
fn it_decides_as_redis_cell_documents() {
    let (limits, clock) = limits(10);
    let start = clock.now();
    // At (ms), quantity, limited, remaining, retry (s), reset (ms).
    let cases: [(u64, u64, bool, u64, Option<u64>, u64); 15] = [
        (0, 6, true, 5, None, 0),
        (0, 1, false, 4, None, 1_000),
        (0, 1, false, 3, None, 2_000),
        (0, 1, false, 2, None, 3_000),
        (0, 1, false, 1, None, 4_000),
        (0, 1, false, 0, None, 5_000),
        (0, 1, true, 0, Some(1), 5_000),
        (3_000, 1, false, 2, None, 3_000),
        (3_100, 1, false, 1, None, 3_900),
        (4_000, 1, false, 1, None, 4_000),
        (8_000, 1, false, 4, None, 1_000),
        (9_500, 1, false, 4, None, 1_000),
        (9_500, 0, false, 4, None, 1_000),
        (9_500, 2, false, 2, None, 3_000),
        (9_500, 5, true, 2, Some(3), 3_000),
    ];
    for (case, (at, quantity, limited, remaining, retry, reset)) in cases.into_iter().enumerate() {
        clock.set(start + ms(at));
        let result = limits.bucket(b"foo", 4, 1, SECOND, quantity).unwrap();
        let expected = ThrottleResult {
            limited,
            limit: 5,
            remaining,
            retry_after: retry.map(Duration::from_secs),
            reset_after: ms(reset),
        };
        assert_eq!(result, expected, "case {case}");
    }
}

#[test]
fn parameters_may_change_and_the_arrival_time_stays() {
    let (limits, clock) = limits(10);
    // Ten seconds of debt with a slow rate...
    assert_eq!(limits.bucket(b"k", 1, 1, secs(10), 1).unwrap().reset_after, secs(10));
    // ... stay ten seconds with a fast rate, also for a zero-cost read.
    let quick = limits.bucket(b"k", 4, 1, SECOND, 0).unwrap();
    assert!(quick.limited);
    assert_eq!((quick.limit, quick.remaining, quick.retry_after), (5, 0, Some(secs(5))));
    clock.advance(secs(5));
    assert!(!limits.bucket(b"k", 4, 1, SECOND, 0).unwrap().limited);
    assert!(limits.bucket(b"k", 4, 1, SECOND, 1).unwrap().limited);
    clock.advance(secs(1));
    assert!(!limits.bucket(b"k", 4, 1, SECOND, 1).unwrap().limited);
}

#[test]
fn returned_tokens_are_available_up_to_the_burst() {
    let (limits, _) = limits(10);
    assert!(!limits.bucket(b"k", 4, 1, SECOND, 5).unwrap().limited);
    let result = limits.give_back_to_bucket(b"k", 4, 1, SECOND, 2).unwrap();
    assert_eq!((result.limited, result.remaining, result.reset_after), (false, 2, secs(3)));
    assert_eq!(limits.give_back_to_bucket(b"k", 4, 1, SECOND, u64::MAX).unwrap().remaining, 5);
    assert!(limits.bucket(b"k", 4, 1, SECOND, 6).unwrap().limited);
    assert_eq!(limits.give_back_to_bucket(b"unknown", 4, 1, SECOND, 3).unwrap().remaining, 5);
}

#[test]
fn windows_are_aligned_to_the_epoch_and_counted_per_length() {
    // Twenty seconds before a full minute.
    let clock = ManualClock::starting_at(Timestamp::from_unix(secs(EPOCH_UNIX_SECONDS + 100)));
    let limits = AdHoc::new(10, clock.clone()).unwrap();
    let minute = secs(60);
    let result = limits.window(b"k", 3, minute, 2).unwrap();
    assert_eq!((result.limited, result.limit, result.remaining, result.reset_after), (false, 3, 1, secs(20)));
    let refused = limits.window(b"k", 3, minute, 2).unwrap();
    assert_eq!((refused.limited, refused.remaining, refused.retry_after), (true, 1, Some(secs(20))));
    let never = limits.window(b"k", 3, minute, 4).unwrap();
    assert_eq!((never.limited, never.retry_after), (true, None));
    assert_eq!(limits.window(b"k", 3, minute, 0).unwrap().remaining, 1);
    assert_eq!(limits.window(b"k", 3, secs(3600), 1).unwrap().remaining, 2);
    assert_eq!(limits.give_back_to_window(b"k", 3, minute, 9).unwrap().remaining, 3);
    assert_eq!(limits.window(b"k", 5, minute, 5).unwrap().remaining, 0);
    assert!(limits.window(b"k", 3, minute, 0).is_ok_and(|result| !result.limited && result.remaining == 0));
    clock.advance(secs(20));
    assert_eq!(limits.window(b"k", 3, minute, 1).unwrap().remaining, 2);
    assert!(limits.window(b"k", 0, minute, 1).unwrap().limited);
    assert!(!limits.window(b"k", 0, minute, 0).unwrap().limited);
}

#[test]
fn unsupported_parameters_are_rejected_with_a_reason() {
    let (limits, _) = limits(10);
    for (count, period) in [(0, SECOND), (1, Duration::ZERO), (0, Duration::ZERO)] {
        assert_eq!(limits.bucket(b"k", 1, count, period, 1), Err(AdHocError::ZeroRate));
    }
    assert_eq!(limits.window(b"k", 1, Duration::ZERO, 1), Err(AdHocError::ZeroRate));
    let slow = limits.bucket(b"k", u64::MAX, 1, SECOND, 1).unwrap_err();
    assert!(slow.to_string().contains("takes more than four years to fill"), "{slow}");
    for unit in 2..=9 {
        assert!(limits.window(b"k", 1, secs(unit), 1).is_ok());
    }
    let many = limits.window(b"k", 1, secs(10), 1).unwrap_err();
    assert!(many.to_string().starts_with("too many window lengths, with 10 s: the maximum is 8 in addition"), "{many}");
    // Custom window lengths do not take the tables of named ones.
    for named in [1, 60, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400] {
        assert!(!limits.window(b"k", 1, secs(named), 1).unwrap().limited, "{named}");
        assert!(limits.window(b"k", 1, secs(named), 1).unwrap().limited, "{named}");
    }
    assert!(AdHoc::new(0, ManualClock::new()).is_err());
    assert_eq!(limits.bucket(b"k", 0, 1, SECOND, 0).unwrap().remaining, 1, "an error consumed quota");
}

/// A hundred thousand keys with fast and slow rates in a table for a thousand: no observed key is admitted
/// more than its own parameters allow.
#[test]
fn an_evicted_key_gets_no_new_burst() {
    let (limits, clock) = limits(1_000);
    let mut dice = SplitMix64::new(5);
    let numbers = [(3u64, 1u64, secs(1)), (9, 10, secs(60)), (4, 5, secs(3600))];
    let mut histories = vec![Vec::new(); numbers.len()];
    for round in 0..200_000u64 {
        let (burst, count, period) = numbers[(dice.bits() % 3) as usize];
        limits.bucket(&dice.bits().to_le_bytes(), burst, count, period, 1).unwrap();
        let index = (dice.bits() % 3) as usize;
        let (burst, count, period) = numbers[index];
        if !limits.bucket(&[index as u8], burst, count, period, 1).unwrap().limited {
            histories[index].push(AdmissionEvent { at: clock.now().as_nanos(), cost: 1 });
        }
        if round % 8 == 0 {
            clock.advance(ms(3));
        }
    }
    assert!(limits.early_evictions() > 10_000, "no flood at all");
    for ((burst, count, period), history) in numbers.into_iter().zip(&histories) {
        let pace = ExactRate::new(count, period.as_nanos() as u64);
        bound::token_bucket(history, pace, burst + 1).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(!history.is_empty());
    }
}

#[test]
fn memory_is_fixed_and_allocated_on_first_use() {
    let (limits, _) = limits(1_000);
    assert_eq!(limits.bytes(), 0);
    limits.bucket(b"k", 1, 1, SECOND, 1).unwrap();
    limits.window(b"k", 1, SECOND, 1).unwrap();
    let bytes = limits.bytes();
    assert!(bytes > 0);
    for key in 0..50_000u32 {
        limits.bucket(&key.to_le_bytes(), 1, 1, SECOND, 1).unwrap();
        limits.window(&key.to_le_bytes(), 1, SECOND, 1).unwrap();
    }
    assert_eq!(limits.bytes(), bytes);
}

/// redis-cell's algorithm in big integers, in units of 1/`ticks` ns, with the interval rounded up.
struct RedisCellModel {
    arrivals: HashMap<u8, i128>,
    ticks: i128,
}

impl RedisCellModel {
    fn bucket(
        &mut self,
        key: u8,
        burst: u64,
        count: u64,
        period: Duration,
        quantity: u64,
        now: Timestamp,
    ) -> ThrottleResult {
        let now = i128::from(now.as_nanos()) * self.ticks;
        let period = i128::try_from(period.as_nanos()).unwrap() * self.ticks;
        let interval = (period + i128::from(count) - 1) / i128::from(count);
        let limit = i128::from(burst) + 1;
        let tolerance = interval * limit;
        let increment = interval * i128::from(quantity);
        let arrival = self.arrivals.get(&key).copied().unwrap_or(now).max(now);
        let next = arrival + increment;
        let early = next - tolerance - now;
        let (limited, retry, owed) = if early > 0 {
            (true, (increment <= tolerance).then_some(early), arrival - now)
        } else {
            self.arrivals.insert(key, next);
            (false, None, next - now)
        };
        let nanos = |ticks: i128| Duration::from_nanos(u64::try_from((ticks + self.ticks - 1) / self.ticks).unwrap());
        ThrottleResult {
            limited,
            limit: limit as u64,
            remaining: ((tolerance - owed).max(0) / interval) as u64,
            retry_after: retry.map(nanos),
            reset_after: nanos(owed),
        }
    }
}

#[derive(Clone, Debug)]
struct ThrottleCall {
    key: u8,
    burst: u64,
    count: u64,
    period: Duration,
    quantity: u64,
    pause: Duration,
}

fn calls(count: impl Strategy<Value = u64> + Clone + 'static) -> impl Strategy<Value = Vec<ThrottleCall>> {
    let call = (0..3u8, 0..20u64, count, 1..200u64, 0..8u64, prop_oneof![Just(0), 0..2_000_000_000u64]).prop_map(
        |(key, burst, count, period, quantity, pause)| ThrottleCall {
            key,
            burst,
            count,
            period: secs(period),
            quantity,
            pause: Duration::from_nanos(pause),
        },
    );
    proptest::collection::vec(call, 1..120)
}

fn agrees(mut model: RedisCellModel, calls: Vec<ThrottleCall>) -> Result<(), TestCaseError> {
    let (limits, clock) = limits(100);
    for call in calls {
        clock.advance(call.pause);
        let ThrottleCall { key, burst, count, period, quantity, .. } = call;
        let result = limits.bucket(&[key], burst, count, period, quantity).unwrap();
        prop_assert_eq!(result, model.bucket(key, burst, count, period, quantity, clock.now()), "{:?}", call);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// If a token takes whole nanoseconds, nothing is rounded: the same as redis-cell.
    #[test]
    fn it_agrees_with_redis_cell_for_changing_parameters(
        calls in calls(prop_oneof![Just(1u64), Just(2), Just(5), Just(10), Just(64), Just(1_000), Just(1_000_000)])
    ) {
        agrees(RedisCellModel { arrivals: HashMap::new(), ticks: 1 }, calls)?;
    }

    /// Otherwise the interval is rounded up to a sixteenth of a nanosecond.
    #[test]
    fn it_agrees_with_the_model_for_any_parameters(calls in calls(1..5_000u64)) {
        agrees(RedisCellModel { arrivals: HashMap::new(), ticks: 16 }, calls)?;
    }

    #[test]
    fn admissions_stay_within_burst_plus_rate(
        burst in 0..50u64,
        count in 1..1_000u64,
        period in 1..100u64,
        arrivals in strategy::arrivals(ArrivalScale::window(1_000_000_000).with_max_cost(6), 1..=200),
    ) {
        let (limits, clock) = limits(100);
        let mut history = Vec::new();
        for Arrival { at, cost } in arrivals {
            clock.set(Timestamp::from_nanos(at));
            let result = limits.bucket(b"k", burst, count, secs(period), cost).unwrap();
            if !result.limited {
                history.push(AdmissionEvent { at, cost });
            }
        }
        let kept = bound::token_bucket(&history, ExactRate::new(count, period * 1_000_000_000), burst + 1);
        prop_assert!(kept.is_ok(), "{}", kept.unwrap_err());
    }

    #[test]
    fn retry_after_is_exact(burst in 0..9u64, count in 1..5_000u64, period in 1..100u64, quantity in 1..9u64) {
        let (limits, clock) = limits(100);
        loop {
            let result = limits.bucket(b"k", burst, count, secs(period), quantity).unwrap();
            let Some(retry) = result.retry_after else {
                if result.limited { break }
                continue;
            };
            clock.advance(retry - Duration::from_nanos(1));
            prop_assert!(limits.bucket(b"k", burst, count, secs(period), quantity).unwrap().limited);
            clock.advance(Duration::from_nanos(1));
            prop_assert!(!limits.bucket(b"k", burst, count, secs(period), quantity).unwrap().limited);
            break;
        }
    }

    /// Any parameters at any time give a result or an error, and a refusal changes nothing.
    #[test]
    fn any_parameters_are_handled(
        at in prop_oneof![any::<u64>(), Just(0), Just(u64::MAX)],
        calls in proptest::collection::vec(
            (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>(), 0..64u32, 0..64u32), 1..40
        ),
    ) {
        let (limits, clock) = limits(10);
        clock.set(Timestamp::from_nanos(at));
        for (burst, count, period, quantity, back, shift, other) in calls {
            let (burst, count) = (burst >> shift, count >> other);
            let period = Duration::from_secs(period >> other);
            let peek = || limits.bucket(b"k", 4, 1, SECOND, 0).unwrap();
            let before = peek();
            let result = if back {
                limits.give_back_to_bucket(b"k", burst, count, period, quantity)
            } else {
                limits.bucket(b"k", burst, count, period, quantity)
            };
            if result.as_ref().map_or(true, |result| result.limited) {
                prop_assert_eq!(peek(), before);
            }
            if let Ok(result) = result {
                prop_assert!(result.remaining <= result.limit);
            }
            let unit = Duration::from_secs(u64::from(shift % 8));
            if let Ok(result) = limits.window(b"k", count, unit, quantity) {
                prop_assert!(result.remaining <= result.limit);
            }
            let _ = limits.give_back_to_window(b"k", count, unit, quantity);
        }
    }
}
