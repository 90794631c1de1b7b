//! A limit as a quota policy of the `RateLimit` headers.

use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::LimitUnit;
use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::rule::Rule;

use crate::header_value::{MAX_INTEGER, quoted, seconds};

/// One limit of a rule in its wire form.
pub(crate) struct QuotaPolicy {
    /// The policy name as a JSON string: the rule's name, with a suffix if the rule has several limits.
    pub(crate) quoted_name: String,
    /// Refusal message, escaped for use inside a JSON string.
    pub(crate) refusal_json: String,
    /// Maximum per window.
    pub(crate) quota: u64,
    pub(crate) has_window: bool,
    /// Start of its `RateLimit` item, up to the remaining count: `"per-ip";r=`.
    pub(crate) remaining_prefix: Vec<u8>,
    /// Its item in `RateLimit-Policy`.
    policy_item: Vec<u8>,
}

impl QuotaPolicy {
    /// Builds the policies of a rule, one per limit, in order.
    pub(crate) fn of(rule: &Rule) -> Vec<Self> {
        let names: Vec<String> = rule.limits.iter().map(|limit| name(rule, limit)).collect();
        let is_shared = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
        let limits = rule.limits.iter().zip(&names).zip(1..);
        let own_name = |name: &String, at: usize| if is_shared(name) { format!("{name}/{at}") } else { name.clone() };
        limits.map(|((limit, name), at)| Self::new(&own_name(name, at), limit, rule)).collect()
    }

    fn new(name: &str, limit: &Limit, rule: &Rule) -> Self {
        let quota = limit.window_quota().min(MAX_INTEGER);
        let mut opening = quoted(name);
        let mut item = opening.clone();
        item.extend_from_slice(b";q=");
        item.extend_from_slice(quota.to_string().as_bytes());
        match limit.unit() {
            LimitUnit::Requests => {}
            LimitUnit::Permits => item.extend_from_slice(b";qu=\"concurrent-requests\""),
            LimitUnit::Bytes => item.extend_from_slice(b";qu=\"content-bytes\""),
        }
        if let Some(window) = limit.window() {
            item.extend_from_slice(b";w=");
            item.extend_from_slice(seconds(window).max(1).to_string().as_bytes());
        }
        opening.extend_from_slice(b";r=");
        let refusal = json(&format!("over the limit {limit} of '{}'", rule.name));
        // Strip the quotes: the message is continued later.
        let refusal = refusal[1..refusal.len() - 1].to_owned();
        Self {
            quoted_name: json(name),
            refusal_json: refusal,
            quota,
            has_window: limit.window().is_some(),
            remaining_prefix: opening,
            policy_item: item,
        }
    }

    /// Caps the remaining count to the quota.
    pub(crate) fn cap_to_quota(&self, remaining: u64) -> u64 {
        remaining.min(self.quota)
    }

    /// All policies of a rule as one list.
    pub(crate) fn list(policies: &[Self]) -> Vec<u8> {
        policies.iter().map(|policy| policy.policy_item.as_slice()).collect::<Vec<_>>().join(&b", "[..])
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The rule's name, with the window or the algorithm if it has several limits.
fn name(rule: &Rule, limit: &Limit) -> String {
    match limit.window() {
        _ if rule.limits.len() == 1 => rule.name.clone(),
        Some(window) => format!("{}/{}", rule.name, HumanDuration(window)),
        None => format!("{}/{}", rule.name, limit.algorithm()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_engine::Rate;
    use std::time::Duration;

    fn list(name: &str, limits: Vec<Limit>) -> String {
        String::from_utf8(QuotaPolicy::list(&QuotaPolicy::of(&Rule::new(name, limits)))).unwrap()
    }

    #[test]
    fn every_algorithm_has_a_policy() {
        let rate = Rate::per_second(10).unwrap();
        let minute = Duration::from_secs(60);
        for (limit, expected) in [
            ("300/1m".parse(), "q=300;w=60"),
            (Limit::token_bucket(rate, 25), "q=25;w=3"),
            (Limit::leaky_bucket(rate, 5), "q=5;w=1"),
            (Limit::sliding_log(7, minute), "q=7;w=60"),
            (Limit::interpolated_window(7, minute), "q=7;w=60"),
            (Limit::concurrency(50), "q=50;qu=\"concurrent-requests\""),
            (Limit::bandwidth(rate, 1_000_001), "q=1000001;qu=\"content-bytes\";w=100001"),
            (Limit::warm_up(rate, minute, 3), "q=10;w=1"),
        ] {
            assert_eq!(list("a", vec![limit.unwrap()]), format!("\"a\";{expected}"));
        }
    }

    #[test]
    fn several_limits_have_distinct_names() {
        let limits = vec!["300/1m".parse().unwrap(), "100/5s".parse().unwrap(), Limit::concurrency(3).unwrap()];
        assert_eq!(
            list("per-ip", limits),
            "\"per-ip/1m\";q=300;w=60, \"per-ip/5s\";q=100;w=5, \"per-ip/concurrency\";q=3;qu=\"concurrent-requests\""
        );
    }

    /// `RateLimit` refers to a policy by name, so names must be distinct.
    #[test]
    fn limits_with_one_window_have_distinct_names() {
        let minute = Duration::from_secs(60);
        let limits = vec!["300/1m".parse().unwrap(), Limit::sliding_log(9, minute).unwrap(), "100/5s".parse().unwrap()];
        assert_eq!(list("a", limits), "\"a/1m/1\";q=300;w=60, \"a/1m/2\";q=9;w=60, \"a/5s\";q=100;w=5");
    }

    #[test]
    fn any_name_is_a_valid_string_item() {
        assert_eq!(list("a\"b\\c\n\u{e9}", vec!["1/s".parse().unwrap()]), "\"a\\\"b\\\\c%0a%c3%a9\";q=1;w=1");
    }
}
