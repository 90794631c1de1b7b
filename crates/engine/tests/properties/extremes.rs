//! Extreme values: no panic, no overflow, and no limit that opens because a number saturates.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::algorithm::{Alignment, LimitCharge};
use sluicegate_engine::{Limit, Rate};

use super::subject::{Subject, time};

const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);
const NANO: Duration = Duration::from_nanos(1);

/// Limits with the smallest and largest accepted parameters.
fn extreme_limits() -> Vec<Limit> {
    let rate = |count, period| Rate::new(count, period).unwrap();
    let reservable = |limit| match limit {
        Limit::TokenBucket(bucket) => Limit::TokenBucket(bucket.reservable()),
        other => other,
    };
    let mut limits = vec![
        Limit::token_bucket(rate(1_600_000_000, Duration::from_secs(1)), 1).unwrap(),
        Limit::token_bucket(rate(1_600_000_000, Duration::from_secs(1)), (1 << 61) / 10).unwrap(),
        Limit::token_bucket(rate(1, Duration::from_secs(86_400 * 365)), 4).unwrap(),
        Limit::token_bucket(rate(u64::MAX / 60, TEN_YEARS), 1).unwrap_or("1/s".parse().unwrap()),
        Limit::leaky_bucket(rate(1, Duration::from_secs(86_400 * 365)), 4).unwrap(),
        Limit::leaky_bucket(rate(1_600_000_000, Duration::from_secs(1)), (1 << 61) / 10).unwrap(),
        Limit::sliding_log(1, NANO).unwrap(),
        Limit::sliding_log(1, TEN_YEARS).unwrap(),
        Limit::sliding_log(50, TEN_YEARS).unwrap(),
        Limit::concurrency(1).unwrap(),
        Limit::concurrency(u64::MAX).unwrap(),
        Limit::warm_up(rate(1, Duration::from_secs(1)), TEN_YEARS, 2).unwrap(),
        Limit::warm_up(rate(1_000_000, Duration::from_secs(1)), Duration::from_secs(3_600), 100).unwrap(),
        Limit::warm_up(rate(1, Duration::from_secs(86_400 * 30)), TEN_YEARS, 3).unwrap(),
    ];
    limits.push(reservable(limits[1]));
    limits.push(reservable(limits[2]));
    for limit in [1, 254, 255, 256, u64::from(u16::MAX), u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
        for window in [NANO, Duration::from_nanos(1_001), TEN_YEARS] {
            limits.push(Limit::fixed_window(limit, window, Alignment::Epoch).unwrap());
            limits.push(Limit::fixed_window(limit, window, Alignment::FirstUse).unwrap());
            limits.push(Limit::interpolated_window(limit, window).unwrap());
            limits.push(Limit::sliding_window(limit, window, 1).unwrap());
            if window > NANO {
                limits.push(Limit::sliding_window(limit, window, 1_000).unwrap());
            }
        }
    }
    limits
}

fn extreme_number() -> impl Strategy<Value = u64> {
    let near = |centre: u64| (0..5u64).prop_map(move |off| (centre - 2).saturating_add(off));
    prop_oneof![0..4u64, near(u64::MAX), near(1 << 60), near(1 << 61), near(1 << 63), near(1 << 32), any::<u64>()]
}

proptest! {
    #[test]
    fn no_number_makes_an_algorithm_panic(
        index in any::<prop::sample::Index>(),
        steps in prop::collection::vec((extreme_number(), extreme_number(), extreme_number(), 0..4u8), 1..40),
    ) {
        let limits = extreme_limits();
        let mut subject = Subject::new(limits[index.index(limits.len())]);
        let mut other = subject.fresh();
        for (at, cost, actual, operation) in steps {
            subject.check(at, cost);
            subject.check_departure(at, cost);
            let taken = match operation {
                // Also charges that were not admitted, and records that were never taken.
                0 => subject.commit(at, cost, true),
                1 => LimitCharge { at: time(actual), cost, mark: actual, reserved: true },
                2 => other.commit(at, cost, false),
                _ if subject.admits(at, cost) => subject.commit(at, cost, false),
                _ => continue,
            };
            subject.settle(taken, actual, at.wrapping_add(cost));
            subject.remaining(at);
            subject.reset(at);
            subject.full_at();
            other.merge(&subject);
            subject.merge(&other);
            subject.check(at, 1);
        }
    }

    /// A saturated clock stands still, and the limit is still enforced.
    #[test]
    fn the_last_timestamp_opens_no_limit(
        index in any::<prop::sample::Index>(),
        at in extreme_number(),
        costs in prop::collection::vec(extreme_number(), 1..20),
    ) {
        let limits = extreme_limits();
        let mut subject = Subject::new(limits[index.index(limits.len())]);
        if subject.is_warm_up() {
            return Ok(()); // It admits any cost at the admission time.
        }
        let mut admitted = 0u128;
        let capacity = subject.limit.capacity();
        for cost in costs.into_iter().flat_map(|cost| [capacity, cost, capacity / 2 + 1, 1, 1]) {
            if subject.admits(at, cost) {
                subject.commit(at, cost, false);
                admitted += u128::from(cost);
            }
            prop_assert!(admitted <= u128::from(capacity), "{} admitted {}", subject.limit, admitted);
        }
    }
}

/// A charge that does not fit its narrow counter must not be lost: 1000 were charged, and a refund of the other
/// 254 must leave the limit exhausted.
#[test]
fn a_charge_beyond_a_narrow_counter_is_not_lost() {
    for limit in [254, 255, 256, 65_534, 65_535] {
        let mut subject = Subject::new(Limit::sliding_window(limit, Duration::from_secs(1), 10).unwrap());
        let taken: Vec<_> = (0..limit).map(|_| subject.commit(5, 1, false)).collect();
        subject.settle(taken[0], 1_000_000_000_000, 5);
        for one in &taken[1..] {
            subject.settle(*one, 0, 5);
        }
        assert_eq!(subject.remaining(5), 0, "limit {limit}");
        assert!(!subject.admits(1_000_000_000, 1), "limit {limit}");
    }
}
