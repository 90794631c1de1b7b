//! Very high rates are kept within a tenth of what was asked, and never above it.

use sluicegate_engine::algorithm::Check;
use sluicegate_engine::{Limit, Rate};
use sluicegate_testkit::bound::{self, Admitted};

use crate::subject::{Subject, pace};

/// Takes all it can get, in bites of `bite`, for `span` nanoseconds; answers the total.
fn greedy(limit: Limit, rate: Rate, burst: u64, bite: u64, span: u64) -> u64 {
    let (mut subject, mut now, mut history) = (Subject::new(limit), 1_000_000_007, Vec::new());
    let end = now + span;
    while now <= end {
        match subject.take(now, bite) {
            Check::Now => history.push(Admitted { at: now, cost: bite }),
            Check::NotBefore(wait) => now += wait,
            other => panic!("{other:?}"),
        }
    }
    bound::token_bucket(&history, pace(rate), burst).unwrap();
    history.iter().map(|entry| entry.cost).sum()
}

#[test]
fn high_rates_lose_less_than_a_tenth_and_gain_nothing() {
    let rates = [1_000_000, 99_999_999, 700_000_000, 1_000_000_000, 1_073_741_824, 1_500_000_001, 1_600_000_000];
    for count in rates {
        let rate = Rate::per_second(count).unwrap();
        for (burst, bite) in [(1, 1), (64, 1), (1 << 20, 1 << 16)] {
            // A bucket of one token can be asked once per nanosecond, so it cannot do more than that.
            let most = if burst == 1 { count.min(1_000_000_000) } else { count };
            let span = if bite == 1 { 100_000 } else { 100_000_000 };
            let total = greedy(Limit::bandwidth(rate, burst).unwrap(), rate, burst, bite, span);
            let fair = u128::from(most) * u128::from(span) / 1_000_000_000;
            // With one token, two emission intervals that end within the same nanosecond cost one.
            let least = if burst == 1 { fair / 2 } else { fair * 9 / 10 };
            assert!(u128::from(total) >= least, "{count}/s, burst {burst}: {total} of {fair}");
            assert!(
                u128::from(total) <= fair + u128::from(burst + bite),
                "{count}/s, burst {burst}: {total} of {fair}"
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
fn a_rate_that_cannot_be_kept_is_refused() {
    assert!(Limit::bandwidth(Rate::per_second(1_800_000_000).unwrap(), 10).is_err());
    assert!(Limit::token_bucket(Rate::per_second(u64::MAX).unwrap(), 10).is_err());
}
