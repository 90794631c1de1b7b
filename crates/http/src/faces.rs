//! What each rule looks like on the wire, prepared once per set of rules.

use http::HeaderValue;
use sluicegate_engine::rule::Rule;

use crate::headers::Policy;
use crate::reply::Prepared;

/// The faces of one set of rules, in the order of the rules.
pub(crate) struct Faces(Vec<Face>);

/// What one rule looks like.
pub(crate) struct Face {
    /// Its limits as policies, in their order.
    pub(crate) policies: Vec<Policy>,
    /// All of them as a line of `RateLimit-Policy`.
    pub(crate) policy: HeaderValue,
    /// What it answers instead, if it says so.
    pub(crate) reply: Option<Prepared>,
}

impl Faces {
    /// Of these rules.
    pub(crate) fn of(rules: &[Rule]) -> Self {
        Self(rules.iter().map(Face::of).collect())
    }

    pub(crate) fn rule(&self, rule: usize) -> Option<&Face> {
        self.0.get(rule)
    }
}

impl Face {
    fn of(rule: &Rule) -> Self {
        let policies = Policy::of(rule);
        let policy = HeaderValue::try_from(Policy::list(&policies)).unwrap_or(HeaderValue::from_static(""));
        Self { policies, policy, reply: rule.on_limit.reply.as_ref().map(Prepared::new) }
    }
}
