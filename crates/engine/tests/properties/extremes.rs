//! The ends of every range: no panic, no overflow, and no limit that opens because a number ran out.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::algorithm::{Alignment, Taken};
use sluicegate_engine::{Limit, Rate};

use crate::subject::{Subject, time};

const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 86_400);
const NANO: Duration = Duration::from_nanos(1);

/// Limits with numbers at the ends of what is accepted.
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
        which in any::<prop::sample::Index>(),
        steps in prop::collection::vec((extreme_number(), extreme_number(), extreme_number(), 0..4u8), 1..40),
    ) {
        let limits = extreme_limits();
        let mut subject = Subject::new(limits[which.index(limits.len())]);
        let mut other = subject.fresh();
        for (at, cost, actual, what) in steps {
            subject.check(at, cost);
            subject.check_departure(at, cost);
            let taken = match what {
                // Even what was not admitted, and even a record nobody ever took.
                0 => subject.commit(at, cost, true),
                1 => Taken { at: time(actual), cost, mark: actual, held: true },
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

    /// A clock that has run out of numbers stands still, and then a limit is a limit.
    #[test]
    fn the_end_of_time_opens_no_limit(
        which in any::<prop::sample::Index>(),
        at in extreme_number(),
        costs in prop::collection::vec(extreme_number(), 1..20),
    ) {
        let limits = extreme_limits();
        let mut subject = Subject::new(limits[which.index(limits.len())]);
        if subject.is_warm_up() {
            return Ok(()); // It lets in any cost when the moment has come.
        }
        let mut admitted = 0u128;
        let capacity = subject.limit.capacity();
        for cost in costs.into_iter().flat_map(|cost| [capacity, cost, capacity / 2 + 1, 1, 1]) {
            if subject.admits(at, cost) {
                subject.commit(at, cost, false);
                admitted += u128::from(cost);
            }
            prop_assert!(admitted <= u128::from(capacity), "{} let in {}", subject.limit, admitted);
        }
    }
}

/// A count that does not fit its narrow counter must not be forgotten: what was charged is 1000, and
/// giving back the other 254 must leave the limit exhausted.
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
