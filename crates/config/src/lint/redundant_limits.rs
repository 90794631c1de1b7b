//! Lint for redundant limits: another limit of the same rule is always tighter.
//!
//! All limits of a rule see the same requests at the same cost, and a request must pass all. If every request
//! that one limit admits also passes another, the other is redundant. The maximum that a limit admits in a
//! time span is bounded as documented; a limit is reported only if such a bound proves it redundant. Limits
//! on different quantities (requests, permits, bytes) are never compared.

use std::time::Duration;

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::SlidingWindow;
use sluicegate_engine::rule::Rule;

use crate::diagnostic::DiagnosticBuilder;
use crate::parse::{ParseContext, RuleSpans};

/// Reports each redundant limit.
pub(super) fn check(context: &ParseContext<'_>, rule: &Rule, spans: &RuleSpans) {
    let limits: Vec<_> = rule.limits.iter().zip(&spans.limits).collect();
    for (index, (limit, span)) in limits.iter().enumerate() {
        let tighter = limits.iter().enumerate().find(|(other, (tight, _))| {
            // If two limits imply each other, the first one is kept.
            *other != index && implies(tight, limit) && (*other < index || !implies(limit, tight))
        });
        if let Some((_, (tight, at))) = tighter {
            context.report(
                DiagnosticBuilder::warning(**span, format!("redundant limit: {limit}"))
                    .label("never refuses a request")
                    .with_related(**at, format!("{tight} is always tighter"))
                    .help("remove the redundant limit, or make it tighter"),
            );
        }
    }
}

/// True if every request that `tight` admits also passes `loose`.
fn implies(tight: &Limit, loose: &Limit) -> bool {
    match (tight, loose) {
        (Limit::Concurrency(tight), Limit::Concurrency(loose)) => tight.limit() <= loose.limit(),
        (Limit::Bandwidth(tight), Limit::Bandwidth(loose)) | (Limit::TokenBucket(tight), Limit::TokenBucket(loose)) => {
            tight.burst() <= loose.burst() && tight.gcra().interval() >= loose.gcra().interval()
        }
        (Limit::FixedWindow(tight), Limit::FixedWindow(loose)) if tight.alignment() == loose.alignment() => {
            // Equal windows are aligned; others are compared like any two limits.
            let equal = tight.window() == loose.window();
            (equal && tight.limit() <= loose.limit())
                || fits(max_in(&Limit::FixedWindow(*tight), loose.window()), loose.limit())
        }
        (tight, Limit::FixedWindow(loose)) => fits(max_in(tight, loose.window()), loose.limit()),
        (tight, Limit::SlidingLog(loose)) => fits(max_in(tight, loose.window()), loose.limit()),
        // A request counts until its cell has passed: up to one cell longer than the window.
        (tight, Limit::SlidingWindow(loose)) => {
            let same = matches!(tight, Limit::SlidingWindow(tight)
                if tight.window() == loose.window() && tight.cells() == loose.cells() && tight.limit() <= loose.limit());
            same || fits(max_in(tight, max_retention(loose)), loose.limit())
        }
        // The estimate never exceeds the count of two windows.
        (tight, Limit::InterpolatedWindow(loose)) => fits(max_in(tight, loose.window() * 2), loose.limit()),
        _ => false,
    }
}

/// Maximum time that a request counts in a window of cells.
fn max_retention(window: &SlidingWindow) -> Duration {
    let cell = window.window().as_nanos().div_ceil(u128::from(window.cells().max(1)));
    let nanos = cell.saturating_mul(u128::from(window.cells()) + 1);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn fits(max: Option<u128>, limit: u64) -> bool {
    max.is_some_and(|max| max <= u128::from(limit))
}

/// Maximum that a limit admits in any span of this length, if it has such a bound.
fn max_in(limit: &Limit, span: Duration) -> Option<u128> {
    let span = span.as_nanos();
    let windows = |window: Duration| span.div_ceil(window.as_nanos().max(1));
    match limit {
        Limit::TokenBucket(bucket) => {
            let rate = bucket.rate();
            let refilled = span.checked_mul(u128::from(rate.count()))? / rate.period().as_nanos().max(1);
            Some(u128::from(bucket.burst()) + refilled)
        }
        Limit::SlidingWindow(window) => windows(window.window()).checked_mul(u128::from(window.limit())),
        Limit::SlidingLog(window) => windows(window.window()).checked_mul(u128::from(window.limit())),
        // A span that begins within a window touches one more.
        Limit::FixedWindow(window) => (windows(window.window()) + 1).checked_mul(u128::from(window.limit())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_engine::algorithm::{AdmitMode, Algorithm, Alignment, Check};
    use sluicegate_engine::{Rate, Timestamp};

    use super::*;

    fn limit(text: &str) -> Limit {
        text.parse().unwrap()
    }

    #[test]
    fn only_provable_redundancy_is_reported() {
        assert!(implies(&limit("300/1m"), &limit("1000/s")));
        assert!(implies(&limit("10/s"), &limit("1000/1m")));
        assert!(!implies(&limit("100/s"), &limit("1000/1m")));
        assert!(!implies(&limit("1000/1m"), &limit("100/s")));
        assert!(!implies(&limit("300/1m"), &limit("100/5s")));
        assert!(implies(&limit("5/s"), &limit("5/s")));
    }

    #[test]
    fn buckets_are_compared_by_rate_and_burst() {
        let bucket = |count, burst| Limit::token_bucket(Rate::per_second(count).unwrap(), burst).unwrap();
        assert!(implies(&bucket(10, 10), &bucket(20, 10)));
        assert!(!implies(&bucket(10, 20), &bucket(20, 10)));
        assert!(implies(&bucket(10, 10), &limit("1000/1m")));
        assert!(!implies(&bucket(10, 10), &limit("600/1m")));
    }

    /// Evaluates an expression on the algorithm of a limit.
    macro_rules! algorithm {
        ($limit:expr, $it:ident => $body:expr) => {
            match $limit {
                Limit::TokenBucket($it) => $body,
                Limit::FixedWindow($it) => $body,
                Limit::SlidingWindow($it) => $body,
                Limit::InterpolatedWindow($it) => $body,
                Limit::SlidingLog($it) => $body,
                other => panic!("not generated: {other}"),
            }
        };
    }

    fn any_limit() -> impl Strategy<Value = Limit> {
        let window = |nanos| Duration::from_nanos(nanos);
        (0..6u8, 1..40u64, 1..200u64, 1..40u64, 1..12u32).prop_filter_map(
            "invalid limit",
            move |(kind, count, nanos, burst, cells)| {
                match kind {
                    0 => Limit::token_bucket(Rate::new(count, window(nanos)).ok()?, burst),
                    1 => Limit::fixed_window(count, window(nanos), Alignment::Epoch),
                    2 => Limit::fixed_window(count, window(nanos), Alignment::FirstUse),
                    3 => Limit::sliding_window(count, window(nanos), cells),
                    4 => Limit::interpolated_window(count, window(nanos)),
                    _ => Limit::sliding_log(count, window(nanos)),
                }
                .ok()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]

        /// Checks against the engine: a redundant limit refuses nothing that the implying limit admits.
        #[test]
        fn a_redundant_limit_never_refuses(
            tight in any_limit(),
            loose in any_limit(),
            arrivals in prop::collection::vec((0..30u64, 1..4u64), 1..120),
        ) {
            prop_assume!(implies(&tight, &loose));
            let mut tight_state = vec![0; algorithm!(&tight, it => it.words())];
            let mut loose_state = vec![0; algorithm!(&loose, it => it.words())];
            let mut now = Timestamp::from_nanos(1_000_003);
            for (pause, cost) in arrivals {
                now = now + Duration::from_nanos(pause);
                let admitted = algorithm!(&tight, it => it.check(&tight_state, now, cost, AdmitMode::Immediate)) == Check::Now;
                if !admitted {
                    continue;
                }
                let verdict = algorithm!(&loose, it => it.check(&loose_state, now, cost, AdmitMode::Immediate));
                prop_assert_eq!(verdict, Check::Now, "{} admits what {} refuses", tight, loose);
                algorithm!(&tight, it => it.commit(&mut tight_state, now, cost, false));
                algorithm!(&loose, it => it.commit(&mut loose_state, now, cost, false));
            }
        }
    }
}
