//! Additional counters for envoyproxy/ratelimit files: zero limits, which have no rule, and descriptor
//! values that the files want to count separately.

use std::collections::HashMap;

use super::gather::{MetricPoint, MetricValue, OTHER_RULES};
use crate::providers::LimitStats;

/// Label of all entries beyond the bound. Other entries contain `=`.
const OTHER_ENTRIES: &str = "other";

/// Merges zero limits into the decisions of rules. A limit that changes to or from zero continues its
/// series.
pub(super) fn with_zero_limits(mut decisions: Vec<MetricPoint>, limits: &[LimitStats]) -> Vec<MetricPoint> {
    if limits.is_empty() {
        return decisions;
    }
    let mut index_by_labels: HashMap<Vec<(&'static str, String)>, usize> =
        decisions.iter().enumerate().map(|(index, point)| (point.labels.clone(), index)).collect();
    for limit in limits {
        for (verdict, count) in verdicts(limit).filter(|(_, count)| *count > 0) {
            let labels = vec![("rule", name(limit)), ("verdict", verdict.to_owned())];
            match index_by_labels.get(&labels).and_then(|index| decisions.get_mut(*index)) {
                Some(MetricPoint { value: MetricValue::Integer(value), .. }) => *value += count,
                _ => {
                    index_by_labels.insert(labels.clone(), decisions.len());
                    decisions.push(MetricPoint { labels, value: count.into() });
                }
            }
        }
    }
    decisions
}

/// Metric points of descriptor values.
pub(super) fn descriptor_points(values: &[LimitStats]) -> Vec<MetricPoint> {
    let each = |value: &LimitStats| {
        let entries = if value.limit.is_none() { OTHER_ENTRIES } else { &value.entries };
        let labels = [("rule", name(value)), ("entries", entries.to_owned())];
        let point = |(verdict, count): (&str, u64)| {
            let verdict = [("verdict", verdict.to_owned())];
            MetricPoint { labels: labels.iter().cloned().chain(verdict).collect(), value: count.into() }
        };
        verdicts(value).filter(|(_, count)| *count > 0).map(point).collect::<Vec<_>>()
    };
    values.iter().flat_map(each).collect()
}

fn name(limit: &LimitStats) -> String {
    limit.limit.clone().unwrap_or_else(|| OTHER_RULES.to_owned())
}

fn verdicts(limit: &LimitStats) -> impl Iterator<Item = (&'static str, u64)> {
    let LimitStats { admitted, refused, would_refuse, .. } = *limit;
    [("admitted", admitted), ("refused", refused), ("would_refuse", would_refuse)].into_iter()
}
