//! Limits whose numbers come with each call decide as redis-cell does, and never admit more.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::Timestamp;
use sluicegate_engine::adhoc::{AdHoc, AdHocError, Throttled};
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::time::EPOCH_UNIX_SECONDS;
use sluicegate_testkit::arrivals::{Arrival, Scale, strategy};
use sluicegate_testkit::bound::{self, Admitted, Pace};
use support::*;

const SECOND: Duration = Duration::from_secs(1);

fn limits(capacity: usize) -> (AdHoc, ManualClock) {
    let clock = ManualClock::new();
    (AdHoc::new(capacity, clock.clone()).unwrap(), clock)
}

/// The table of redis-cell's own tests: a limit of five, one per second.
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
        let said = limits.bucket(b"foo", 4, 1, SECOND, quantity).unwrap();
        let expected = Throttled {
            limited,
            limit: 5,
            remaining,
            retry_after: retry.map(Duration::from_secs),
            reset_after: ms(reset),
        };
        assert_eq!(said, expected, "case {case}");
    }
}

#[test]
fn numbers_may_change_and_the_moment_stays() {
    let (limits, clock) = limits(10);
    // Ten seconds of debt under slow numbers...
    assert_eq!(limits.bucket(b"k", 1, 1, secs(10), 1).unwrap().reset_after, secs(10));
    // ... are ten seconds under quick ones, of which even a look is told.
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
fn what_is_given_back_can_be_had_again_but_no_more_than_the_bucket_holds() {
    let (limits, _) = limits(10);
    assert!(!limits.bucket(b"k", 4, 1, SECOND, 5).unwrap().limited);
    let said = limits.give_back_to_bucket(b"k", 4, 1, SECOND, 2).unwrap();
    assert_eq!((said.limited, said.remaining, said.reset_after), (false, 2, secs(3)));
    assert_eq!(limits.give_back_to_bucket(b"k", 4, 1, SECOND, u64::MAX).unwrap().remaining, 5);
    assert!(limits.bucket(b"k", 4, 1, SECOND, 6).unwrap().limited);
    assert_eq!(limits.give_back_to_bucket(b"unknown", 4, 1, SECOND, 3).unwrap().remaining, 5);
}

#[test]
fn windows_are_those_of_the_clock_and_each_length_counts_apart() {
    // Twenty seconds before a full minute.
    let clock = ManualClock::starting_at(Timestamp::from_unix(secs(EPOCH_UNIX_SECONDS + 100)));
    let limits = AdHoc::new(10, clock.clone()).unwrap();
    let minute = secs(60);
    let said = limits.window(b"k", 3, minute, 2).unwrap();
    assert_eq!((said.limited, said.limit, said.remaining, said.reset_after), (false, 3, 1, secs(20)));
    let refused = limits.window(b"k", 3, minute, 2).unwrap();
    assert_eq!((refused.limited, refused.remaining, refused.retry_after), (true, 1, Some(secs(20))));
    let never = limits.window(b"k", 3, minute, 4).unwrap();
    assert_eq!((never.limited, never.retry_after), (true, None));
    assert_eq!(limits.window(b"k", 3, minute, 0).unwrap().remaining, 1);
    assert_eq!(limits.window(b"k", 3, secs(3600), 1).unwrap().remaining, 2);
    assert_eq!(limits.give_back_to_window(b"k", 3, minute, 9).unwrap().remaining, 3);
    assert_eq!(limits.window(b"k", 5, minute, 5).unwrap().remaining, 0);
    assert!(limits.window(b"k", 3, minute, 0).is_ok_and(|said| !said.limited && said.remaining == 0));
    clock.advance(secs(20));
    assert_eq!(limits.window(b"k", 3, minute, 1).unwrap().remaining, 2);
    assert!(limits.window(b"k", 0, minute, 1).unwrap().limited);
    assert!(!limits.window(b"k", 0, minute, 0).unwrap().limited);
}

#[test]
fn numbers_that_cannot_be_kept_are_refused_with_the_reason() {
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
    assert!(many.to_string().starts_with("windows of 10 s are one length too many: the most is 8 beside"), "{many}");
    // Whoever brings lengths of its own takes nobody's place.
    for named in [1, 60, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400] {
        assert!(!limits.window(b"k", 1, secs(named), 1).unwrap().limited, "{named}");
        assert!(limits.window(b"k", 1, secs(named), 1).unwrap().limited, "{named}");
    }
    assert!(AdHoc::new(0, ManualClock::new()).is_err());
    assert_eq!(limits.bucket(b"k", 0, 1, SECOND, 0).unwrap().remaining, 1, "errors took something");
}

/// Keys of quick and slow numbers by the hundred thousand in a table for a thousand: none of those that are
/// watched is admitted more than its own numbers say.
#[test]
fn a_forgotten_key_gets_no_new_burst_whatever_numbers_the_others_have() {
    let (limits, clock) = limits(1_000);
    let mut dice = Dice::new(5);
    let numbers = [(3u64, 1u64, secs(1)), (9, 10, secs(60)), (4, 5, secs(3600))];
    let mut histories = vec![Vec::new(); numbers.len()];
    for round in 0..200_000u64 {
        let (burst, count, period) = numbers[(dice.roll() % 3) as usize];
        limits.bucket(&dice.roll().to_le_bytes(), burst, count, period, 1).unwrap();
        let which = (dice.roll() % 3) as usize;
        let (burst, count, period) = numbers[which];
        if !limits.bucket(&[which as u8], burst, count, period, 1).unwrap().limited {
            histories[which].push(Admitted { at: clock.now().as_nanos(), cost: 1 });
        }
        if round % 8 == 0 {
            clock.advance(ms(3));
        }
    }
    assert!(limits.forgotten_early() > 10_000, "no flood at all");
    for ((burst, count, period), history) in numbers.into_iter().zip(&histories) {
        let pace = Pace::new(count, period.as_nanos() as u64);
        bound::token_bucket(history, pace, burst + 1).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(!history.is_empty());
    }
}

#[test]
fn memory_is_what_it_was_after_any_flood_and_nothing_before_use() {
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

/// redis-cell's algorithm in big integers, in units of 1/`ticks` ns, the interval rounded up to a whole one.
struct Model {
    arrivals: HashMap<u8, i128>,
    ticks: i128,
}

impl Model {
    fn bucket(
        &mut self,
        key: u8,
        burst: u64,
        count: u64,
        period: Duration,
        quantity: u64,
        now: Timestamp,
    ) -> Throttled {
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
        Throttled {
            limited,
            limit: limit as u64,
            remaining: ((tolerance - owed).max(0) / interval) as u64,
            retry_after: retry.map(nanos),
            reset_after: nanos(owed),
        }
    }
}

#[derive(Clone, Debug)]
struct Call {
    key: u8,
    burst: u64,
    count: u64,
    period: Duration,
    quantity: u64,
    pause: Duration,
}

fn calls(count: impl Strategy<Value = u64> + Clone + 'static) -> impl Strategy<Value = Vec<Call>> {
    let call = (0..3u8, 0..20u64, count, 1..200u64, 0..8u64, prop_oneof![Just(0), 0..2_000_000_000u64]).prop_map(
        |(key, burst, count, period, quantity, pause)| Call {
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

fn agrees(mut model: Model, calls: Vec<Call>) -> Result<(), TestCaseError> {
    let (limits, clock) = limits(100);
    for call in calls {
        clock.advance(call.pause);
        let Call { key, burst, count, period, quantity, .. } = call;
        let said = limits.bucket(&[key], burst, count, period, quantity).unwrap();
        prop_assert_eq!(said, model.bucket(key, burst, count, period, quantity, clock.now()), "{:?}", call);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Where a token takes whole nanoseconds, there is nothing to round: the same as redis-cell.
    #[test]
    fn it_agrees_with_redis_cell_for_changing_numbers(
        calls in calls(prop_oneof![Just(1u64), Just(2), Just(5), Just(10), Just(64), Just(1_000), Just(1_000_000)])
    ) {
        agrees(Model { arrivals: HashMap::new(), ticks: 1 }, calls)?;
    }

    /// Where it does not, it is rounded up to a sixteenth of one.
    #[test]
    fn it_agrees_with_the_model_for_any_numbers(calls in calls(1..5_000u64)) {
        agrees(Model { arrivals: HashMap::new(), ticks: 16 }, calls)?;
    }

    #[test]
    fn never_more_than_the_burst_and_the_rate(
        burst in 0..50u64,
        count in 1..1_000u64,
        period in 1..100u64,
        arrivals in strategy::arrivals(Scale::window(1_000_000_000).costing(6), 1..=200),
    ) {
        let (limits, clock) = limits(100);
        let mut history = Vec::new();
        for Arrival { at, cost } in arrivals {
            clock.set(Timestamp::from_nanos(at));
            let said = limits.bucket(b"k", burst, count, secs(period), cost).unwrap();
            if !said.limited {
                history.push(Admitted { at, cost });
            }
        }
        let kept = bound::token_bucket(&history, Pace::new(count, period * 1_000_000_000), burst + 1);
        prop_assert!(kept.is_ok(), "{}", kept.unwrap_err());
    }

    #[test]
    fn the_promised_time_is_exact(burst in 0..9u64, count in 1..5_000u64, period in 1..100u64, quantity in 1..9u64) {
        let (limits, clock) = limits(100);
        loop {
            let said = limits.bucket(b"k", burst, count, secs(period), quantity).unwrap();
            let Some(retry) = said.retry_after else {
                if said.limited { break }
                continue;
            };
            clock.advance(retry - Duration::from_nanos(1));
            prop_assert!(limits.bucket(b"k", burst, count, secs(period), quantity).unwrap().limited);
            clock.advance(Duration::from_nanos(1));
            prop_assert!(!limits.bucket(b"k", burst, count, secs(period), quantity).unwrap().limited);
            break;
        }
    }

    /// Any numbers at any moment: an answer or an error, and a refusal changes nothing.
    #[test]
    fn any_numbers_are_answered(
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
            let look = || limits.bucket(b"k", 4, 1, SECOND, 0).unwrap();
            let before = look();
            let said = if back {
                limits.give_back_to_bucket(b"k", burst, count, period, quantity)
            } else {
                limits.bucket(b"k", burst, count, period, quantity)
            };
            if said.as_ref().map_or(true, |said| said.limited) {
                prop_assert_eq!(look(), before);
            }
            if let Ok(said) = said {
                prop_assert!(said.remaining <= said.limit);
            }
            let unit = Duration::from_secs(u64::from(shift % 8));
            if let Ok(said) = limits.window(b"k", count, unit, quantity) {
                prop_assert!(said.remaining <= said.limit);
            }
            let _ = limits.give_back_to_window(b"k", count, unit, quantity);
        }
    }
}
