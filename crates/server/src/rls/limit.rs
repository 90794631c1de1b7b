//! A limit of a rule, as the proxy is told of it.

use std::time::Duration;

use sluicegate_config::ratelimit::Unit;
use sluicegate_engine::Limit;
use sluicegate_engine::rule::Rule;

use super::proto::RateLimit;

/// The units, the longest first.
const UNITS: [Unit; 7] = [Unit::Year, Unit::Month, Unit::Week, Unit::Day, Unit::Hour, Unit::Minute, Unit::Second];

/// One limit of a rule.
pub(super) fn told(rule: &Rule, limit: &Limit) -> RateLimit {
    let (requests, window) = numbers(limit);
    let (unit, times) = window.and_then(units).unwrap_or_default();
    RateLimit {
        name: rule.name.clone(),
        requests_per_unit: u32::try_from(requests).unwrap_or(u32::MAX),
        unit,
        unit_multiplier: (times > 1).then_some(times),
    }
}

/// So many in that time: what a bucket refills, or what a window admits.
fn numbers(limit: &Limit) -> (u64, Option<Duration>) {
    let rate = match limit {
        Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) => bucket.rate(),
        Limit::LeakyBucket(bucket) => bucket.rate(),
        Limit::WarmUp(pace) => pace.rate(),
        other => return (other.capacity(), other.window()),
    };
    (rate.count(), Some(rate.period()))
}

/// The number of the longest unit that a time is made of, and how many of it.
fn units(time: Duration) -> Option<(i32, u32)> {
    let of = |unit: Unit| {
        let length = unit.duration().as_nanos();
        let whole = time.as_nanos().is_multiple_of(length).then(|| time.as_nanos() / length)?;
        Some((unit.number(), u32::try_from(whole).ok().filter(|times| *times > 0)?))
    };
    UNITS.into_iter().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_engine::Rate;

    const DAY: u64 = 86_400;

    #[test]
    fn a_time_is_told_in_the_longest_unit_it_is_made_of() {
        for (seconds, expected) in [
            (1, (1, 1)),
            (90, (1, 90)),
            (60, (2, 1)),
            (300, (2, 5)),
            (3_600, (3, 1)),
            (DAY, (4, 1)),
            (30 * DAY, (5, 1)),
            (365 * DAY, (6, 1)),
            (14 * DAY, (7, 2)),
        ] {
            assert_eq!(units(Duration::from_secs(seconds)), Some(expected), "{seconds}");
        }
        for none in [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(1_500)] {
            assert_eq!(units(none), None);
        }
    }

    #[test]
    fn a_bucket_tells_its_rate_and_a_window_its_count() {
        let rate = Rate::per_minute(10).unwrap();
        for (limit, requests, unit) in [
            (Limit::token_bucket(rate, 25), 10, 2),
            (Limit::leaky_bucket(rate, 5), 10, 2),
            (Limit::warm_up(rate, Duration::from_secs(60), 3), 10, 2),
            (Limit::sliding_log(7, Duration::from_secs(3_600)), 7, 3),
            (Limit::concurrency(u64::MAX), u32::MAX, 0),
        ] {
            let told = told(&Rule::new("a", []), &limit.unwrap());
            assert_eq!((told.requests_per_unit, told.unit, told.unit_multiplier), (requests, unit, None));
        }
    }
}
