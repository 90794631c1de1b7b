//! Limits on descriptors.

use super::RateLimitUnit;

/// A limit on descriptors.
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptorLimit {
    /// Kind of limit.
    pub kind: LimitKind,
    /// Index of the rule in [`Domains::rules`](super::Domains::rules); `None` if nothing is counted.
    pub rule: Option<usize>,
    /// Envoy's stat name, such as `messaging.to_number`, made unique; also the rule's name, if it has a rule.
    pub rule_name: String,
    /// Name that other limits refer to in `replaces`.
    pub name: Option<String>,
    /// Names of limits that this one replaces.
    pub replaces: Vec<String>,
    /// Unit of the limit; `None` if it is unlimited, or if the first of `limits` has no such window.
    pub unit: Option<RateLimitUnit>,
    /// Requests per unit, as reported to callers. With `limits`, the capacity of the first one.
    pub requests_per_unit: u32,
    /// If set, requests over the limit are counted and admitted.
    pub shadow: bool,
    /// If set, exceeding the limit does not change the overall code of the response.
    pub quota: bool,
    /// If set, statistics distinguish all values.
    pub detailed_metric: bool,
    /// If set, statistics distinguish the values of a descriptor on the path to the limit, or of its own.
    pub value_to_metric: bool,
    /// Metadata for the proxy, a map; `None` if it is empty.
    pub metadata: Option<serde_json::Value>,
}

/// Kind of a descriptor limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitKind {
    /// Admits everything: `unlimited: true`.
    Unlimited,
    /// Refuses everything: `requests_per_unit: 0`.
    Blocked,
    /// Has a rule that counts.
    Counted,
}
