//! What a file says about descriptors that match.

use super::Unit;

/// A limit on descriptors.
#[derive(Clone, Debug, PartialEq)]
pub struct DescriptorLimit {
    /// Whether it counts at all.
    pub kind: Kind,
    /// The position of the rule that counts, in [`Domains::rules`](super::Domains::rules); `None` if nothing is
    /// counted.
    pub rule: Option<usize>,
    /// The reference's name for it in statistics, such as `messaging.to_number`, made unique; the rule's name, if
    /// it has a rule.
    pub rule_name: String,
    /// The name that other limits may replace it by.
    pub name: Option<String>,
    /// The names of limits that do not count where this one does.
    pub replaces: Vec<String>,
    /// The unit it is given in; `None` if it is unlimited, or given by `limits` of which the first has no such
    /// window.
    pub unit: Option<Unit>,
    /// How many per unit: what callers are told. Given by `limits`, the most that the first admits at once.
    pub requests_per_unit: u32,
    /// Whether it only watches: what is over the limit is admitted all the same.
    pub shadow: bool,
    /// Whether being over it leaves the answer about the whole request alone.
    pub quota: bool,
    /// Whether statistics tell all values apart.
    pub detailed_metric: bool,
    /// Whether statistics tell the values apart of a descriptor on the way to it, or of its own.
    pub value_to_metric: bool,
    /// What to tell the proxy about it, a map; `None` if there is nothing in it.
    pub metadata: Option<serde_json::Value>,
}

/// Whether a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Admits everything: `unlimited: true`.
    Unlimited,
    /// Refuses everything: `requests_per_unit: 0`.
    Blocked,
    /// Has a rule that counts.
    Counted,
}
