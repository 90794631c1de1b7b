//! Converts a rule's limit to the protobuf `RateLimit`.

use std::time::Duration;

use sluicegate_engine::Limit;
use sluicegate_engine::rule::Rule;
use sluicegate_import::envoy_ratelimit::RateLimitUnit;

use super::proto::RateLimit;

/// The units, largest first.
const UNITS: [RateLimitUnit; 7] = [
    RateLimitUnit::Year,
    RateLimitUnit::Month,
    RateLimitUnit::Week,
    RateLimitUnit::Day,
    RateLimitUnit::Hour,
    RateLimitUnit::Minute,
    RateLimitUnit::Second,
];

/// Converts one limit of a rule.
pub(super) fn to_rate_limit(rule: &Rule, limit: &Limit) -> RateLimit {
    let (requests, window) = limit.quota();
    let (unit, times) = window.and_then(largest_unit).unwrap_or_default();
    RateLimit {
        name: rule.name.clone(),
        requests_per_unit: u32::try_from(requests).unwrap_or(u32::MAX),
        unit,
        unit_multiplier: (times > 1).then_some(times),
    }
}

/// The largest unit that divides a duration, by number, and its multiplier.
fn largest_unit(time: Duration) -> Option<(i32, u32)> {
    let multiple = |unit: RateLimitUnit| {
        let length = unit.duration().as_nanos();
        let times = time.as_nanos().is_multiple_of(length).then(|| time.as_nanos() / length)?;
        Some((unit.proto_value(), u32::try_from(times).ok().filter(|times| *times > 0)?))
    };
    UNITS.into_iter().find_map(multiple)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_engine::Rate;

    const DAY: u64 = 86_400;

    #[test]
    fn a_duration_uses_the_largest_unit_that_divides_it() {
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
            assert_eq!(largest_unit(Duration::from_secs(seconds)), Some(expected), "{seconds}");
        }
        for none in [Duration::ZERO, Duration::from_millis(100), Duration::from_millis(1_500)] {
            assert_eq!(largest_unit(none), None);
        }
    }

    #[test]
    fn a_bucket_reports_its_rate_and_a_window_its_count() {
        let rate = Rate::per_minute(10).unwrap();
        for (limit, requests, unit) in [
            (Limit::token_bucket(rate, 25), 10, 2),
            (Limit::leaky_bucket(rate, 5), 10, 2),
            (Limit::warm_up(rate, Duration::from_secs(60), 3), 10, 2),
            (Limit::sliding_log(7, Duration::from_secs(3_600)), 7, 3),
            (Limit::concurrency(u64::MAX), u32::MAX, 0),
        ] {
            let rate_limit = to_rate_limit(&Rule::new("a", []), &limit.unwrap());
            assert_eq!(
                (rate_limit.requests_per_unit, rate_limit.unit, rate_limit.unit_multiplier),
                (requests, unit, None)
            );
        }
    }
}
