//! Lint for redundant limits: another limit of the same rule is always tighter.
//!
//! All limits of a rule see the same requests at the same cost, and a request must pass all. If every request
//! that one limit admits also passes another, the other is redundant. The maximum that a limit admits in a
//! time span is bounded as documented; a limit is reported only if such a bound proves it redundant. Limits
//! on different quantities (requests, permits, bytes) are never compared.

use sluicegate_engine::rule::Rule;

use crate::diagnostic::DiagnosticBuilder;
use crate::parse::{ParseContext, RuleSpans};

/// Reports each redundant limit.
pub(super) fn check(context: &ParseContext<'_>, rule: &Rule, spans: &RuleSpans) {
    let limits: Vec<_> = rule.limits.iter().zip(&spans.limits).collect();
    for (index, (limit, span)) in limits.iter().enumerate() {
        let tighter = limits.iter().enumerate().find(|(other, (tight, _))| {
            // If two limits imply each other, the first one is kept.
            *other != index && tight.implies(limit) && (*other < index || !limit.implies(tight))
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use sluicegate_engine::algorithm::{AdmitMode, Algorithm, Alignment, Check};
    use sluicegate_engine::{Limit, Rate, Timestamp};

    fn limit(text: &str) -> Limit {
        text.parse().unwrap()
    }

    #[test]
    fn only_provable_redundancy_is_reported() {
        assert!(limit("300/1m").implies(&limit("1000/s")));
        assert!(limit("10/s").implies(&limit("1000/1m")));
        assert!(!limit("100/s").implies(&limit("1000/1m")));
        assert!(!limit("1000/1m").implies(&limit("100/s")));
        assert!(!limit("300/1m").implies(&limit("100/5s")));
        assert!(limit("5/s").implies(&limit("5/s")));
    }

    #[test]
    fn buckets_are_compared_by_rate_and_burst() {
        let bucket = |count, burst| Limit::token_bucket(Rate::per_second(count).unwrap(), burst).unwrap();
        assert!(bucket(10, 10).implies(&bucket(20, 10)));
        assert!(!bucket(10, 20).implies(&bucket(20, 10)));
        assert!(bucket(10, 10).implies(&limit("1000/1m")));
        assert!(!bucket(10, 10).implies(&limit("600/1m")));
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
            prop_assume!(tight.implies(&loose));
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
