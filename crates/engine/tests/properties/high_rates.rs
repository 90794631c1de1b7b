//! Very high rates are kept within a tenth of the configured value, and never exceeded.

use sluicegate_engine::algorithm::Check;
use sluicegate_engine::{Limit, Rate};
use sluicegate_testkit::bound::{self, AdmissionEvent};

use super::subject::{Subject, pace};

/// Takes as much as possible in chunks of `chunk` for `span` nanoseconds; returns the total.
fn greedy(limit: Limit, rate: Rate, burst: u64, chunk: u64, span: u64) -> u64 {
    let (mut subject, mut now, mut history) = (Subject::new(limit), 1_000_000_007, Vec::new());
    let end = now + span;
    while now <= end {
        match subject.take(now, chunk) {
            Check::Now => history.push(AdmissionEvent { at: now, cost: chunk }),
            Check::NotBefore(wait) => now += wait,
            other => panic!("{other:?}"),
        }
    }
    bound::token_bucket(&history, pace(rate), burst).unwrap();
    history.iter().map(|entry| entry.cost).sum()
}

#[test]
fn high_rates_lose_less_than_a_tenth_and_exceed_nothing() {
    let rates = [1_000_000, 99_999_999, 700_000_000, 1_000_000_000, 1_073_741_824, 1_500_000_001, 1_600_000_000];
    for count in rates {
        let rate = Rate::per_second(count).unwrap();
        for (burst, cost) in [(1, 1), (64, 1), (1 << 20, 1 << 16)] {
            // A bucket of one token can be used once per nanosecond, so it cannot admit more than that.
            let max = if burst == 1 { count.min(1_000_000_000) } else { count };
            let span = if cost == 1 { 100_000 } else { 100_000_000 };
            let total = greedy(Limit::bandwidth(rate, burst).unwrap(), rate, burst, cost, span);
            let expected = u128::from(max) * u128::from(span) / 1_000_000_000;
            // With one token, two emission intervals that end within the same nanosecond lose one.
            let min = if burst == 1 { expected / 2 } else { expected * 9 / 10 };
            assert!(u128::from(total) >= min, "{count}/s, burst {burst}: {total} of {expected}");
            assert!(
                u128::from(total) <= expected + u128::from(burst + cost),
                "{count}/s, burst {burst}: {total} of {expected}"
            );
        }
    }
}

#[test]
fn a_gibibyte_per_second_is_kept_within_a_hundredth() {
    let rate = Rate::per_second(1 << 30).unwrap();
    let total = greedy(Limit::bandwidth(rate, 1 << 20).unwrap(), rate, 1 << 20, 1 << 14, 1_000_000_000);
    assert!(total >= (1 << 30) / 100 * 99, "{total}");
    assert!(total <= (1 << 30) + (1 << 20), "{total}");
}

#[test]
fn a_rate_that_is_too_high_is_rejected() {
    assert!(Limit::bandwidth(Rate::per_second(1_800_000_000).unwrap(), 10).is_err());
    assert!(Limit::token_bucket(Rate::per_second(u64::MAX).unwrap(), 10).is_err());
}
