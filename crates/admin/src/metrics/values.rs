//! What the decision server counts of envoyproxy/ratelimit's files beyond their rules: limits of zero, which have no
//! rule, and values that the files want told apart.

use std::collections::HashMap;

use super::reading::{OTHERS, Point, Value};
use crate::sources::LimitReading;

/// The entries of all those for which there was no room. Others have `=` in them.
const OTHER: &str = "other";

/// Decisions of rules, and of limits of zero beside them. A limit that was zero before it had a rule, or is now, goes
/// on in the same series.
pub(super) fn with_zero_limits(mut decisions: Vec<Point>, limits: &[LimitReading]) -> Vec<Point> {
    if limits.is_empty() {
        return decisions;
    }
    let mut places: HashMap<Vec<(&'static str, String)>, usize> =
        decisions.iter().enumerate().map(|(place, point)| (point.labels.clone(), place)).collect();
    for limit in limits {
        for (verdict, count) in verdicts(limit).filter(|(_, count)| *count > 0) {
            let labels = vec![("rule", name(limit)), ("verdict", verdict.to_owned())];
            match places.get(&labels).and_then(|place| decisions.get_mut(*place)) {
                Some(Point { value: Value::Whole(value), .. }) => *value += count,
                _ => {
                    places.insert(labels.clone(), decisions.len());
                    decisions.push(Point { labels, value: count.into() });
                }
            }
        }
    }
    decisions
}

/// Values that are told apart.
pub(super) fn told(values: &[LimitReading]) -> Vec<Point> {
    let each = |value: &LimitReading| {
        let entries = if value.limit.is_none() { OTHER } else { &value.entries };
        let labels = [("rule", name(value)), ("entries", entries.to_owned())];
        let point = |(verdict, count): (&str, u64)| {
            let verdict = [("verdict", verdict.to_owned())];
            Point { labels: labels.iter().cloned().chain(verdict).collect(), value: count.into() }
        };
        verdicts(value).filter(|(_, count)| *count > 0).map(point).collect::<Vec<_>>()
    };
    values.iter().flat_map(each).collect()
}

fn name(limit: &LimitReading) -> String {
    limit.limit.clone().unwrap_or_else(|| OTHERS.to_owned())
}

fn verdicts(limit: &LimitReading) -> impl Iterator<Item = (&'static str, u64)> {
    let LimitReading { admitted, refused, would_refuse, .. } = *limit;
    [("admitted", admitted), ("refused", refused), ("would_refuse", would_refuse)].into_iter()
}
