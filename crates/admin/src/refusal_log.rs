//! Periodic refusal log: one line per second and refusing rule.
//!
//! A flood of refusals must not become a flood of log lines, nor add work to refused requests. Once a second
//! the counters of all rules are compared with the previous ones, and each rule with new refusals gets one line
//! with their number.

use std::collections::HashMap;
use std::time::Duration;

use sluicegate_engine::Sluice;
use sluicegate_engine::rule::Mode;
use sluicegate_engine::sluice::RuleCounts;
use tracing::info;

/// Interval of the log.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of lines per interval: the rules with the most refusals.
const MAX_LINES: usize = 20;

/// New refusals of a rule since the last interval.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RefusalDelta {
    rule: String,
    refused: u64,
    banned: u64,
    /// True for a shadow rule.
    shadow: bool,
}

/// Logs one line per second for each refusing rule, until dropped.
pub async fn log_refusals(sluice: Sluice) {
    let mut tracker = RefusalTracker::default();
    tracker.deltas(&sluice.counts());
    loop {
        sluice.clock().sleep(LOG_INTERVAL).await;
        let mut deltas = tracker.deltas(&sluice.counts());
        if deltas.is_empty() {
            continue;
        }
        let shadows: Vec<String> =
            sluice.rules().into_iter().filter(|rule| rule.mode == Mode::Shadow).map(|rule| rule.name).collect();
        deltas.iter_mut().for_each(|delta| delta.shadow = shadows.contains(&delta.rule));
        let (lines, rest) = deltas.split_at(deltas.len().min(MAX_LINES));
        let overload_reasons: HashMap<String, String> =
            sluice.gates().into_iter().map(|(rule, gate)| (rule.name, gate.notice().reason.clone())).collect();
        for RefusalDelta { rule, refused, banned, shadow } in lines {
            let reason = overload_reasons.get(rule).filter(|reason| !reason.is_empty());
            match (shadow, reason) {
                (true, Some(reason)) => info!(rule, count = refused, reason, "would have refused"),
                (true, None) => info!(rule, count = refused, "would have refused"),
                (false, Some(reason)) => info!(rule, count = refused, banned, reason, "refused"),
                (false, None) => info!(rule, count = refused, banned, "refused"),
            }
        }
        if !rest.is_empty() {
            let count: u64 = rest.iter().map(|delta| delta.refused + delta.banned).sum();
            info!(rules = rest.len(), count, "refused by other rules");
        }
    }
}

/// Counters as of the last interval.
#[derive(Default)]
struct RefusalTracker(HashMap<String, (u64, u64)>);

impl RefusalTracker {
    /// Returns new refusals, most first.
    fn deltas(&mut self, counts: &[RuleCounts]) -> Vec<RefusalDelta> {
        let mut deltas = Vec::new();
        let mut now = HashMap::with_capacity(counts.len());
        for RuleCounts { rule, refused, banned, .. } in counts {
            // A rule that was removed and added again starts at zero.
            let (refused_before, banned_before) =
                self.0.get(rule).copied().filter(|known| known.0 <= *refused && known.1 <= *banned).unwrap_or_default();
            let (more_refused, more_banned) = (refused - refused_before, banned - banned_before);
            if more_refused + more_banned > 0 {
                deltas.push(RefusalDelta {
                    rule: rule.clone(),
                    refused: more_refused,
                    banned: more_banned,
                    shadow: false,
                });
            }
            now.insert(rule.clone(), (*refused, *banned));
        }
        self.0 = now;
        deltas.sort_by_key(|delta| std::cmp::Reverse(delta.refused + delta.banned));
        deltas
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::rule::{Request, Rule};

    use super::*;

    fn refused(deltas: &[RefusalDelta]) -> Vec<(&str, u64)> {
        deltas.iter().map(|delta| (delta.rule.as_str(), delta.refused)).collect()
    }

    #[test]
    fn only_new_refusals_are_logged_most_first() {
        let rules = || ["a", "b"].map(|name| Rule::new(name, ["1/1h".parse().unwrap()])).to_vec();
        let sluice = Sluice::builder().rules(rules()).build().unwrap();
        let decide = |rule, times| {
            (0..times).for_each(|_| drop(sluice.rule(rule).map(|rule| rule.decide(&Request::new("", "")))));
        };
        let mut tracker = RefusalTracker::default();
        assert!(tracker.deltas(&sluice.counts()).is_empty());
        decide("a", 3);
        decide("b", 6);
        assert_eq!(refused(&tracker.deltas(&sluice.counts())), [("b", 5), ("a", 2)]);
        assert!(tracker.deltas(&sluice.counts()).is_empty());
        decide("a", 1);
        assert_eq!(refused(&tracker.deltas(&sluice.counts())), [("a", 1)]);
    }

    #[test]
    fn a_counter_reset_is_counted_from_zero() {
        let counted = |refused| RuleCounts { rule: "a".to_owned(), refused, ..RuleCounts::default() };
        let mut tracker = RefusalTracker::default();
        tracker.deltas(&[counted(10)]);
        assert_eq!(refused(&tracker.deltas(&[counted(3)])), [("a", 3)]);
    }
}
