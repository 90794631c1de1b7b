//! Prerendered headers and replies, built once per rule set.

mod prepared_reply;
mod quota_policy;

use http::HeaderValue;
use sluicegate_engine::rule::Rule;

pub(crate) use prepared_reply::PreparedReply;
pub(crate) use quota_policy::QuotaPolicy;

/// Prerendered parts of all rules of a set, in rule order.
pub struct RenderedRules(Vec<RenderedRule>);

/// Prerendered parts of one rule.
pub(crate) struct RenderedRule {
    /// The rule's limits as quota policies, in order.
    pub(crate) policies: Vec<QuotaPolicy>,
    /// All policies as a `RateLimit-Policy` value.
    pub(crate) policy: HeaderValue,
    /// The rule's own reply, if it has one.
    pub(crate) reply: Option<PreparedReply>,
}

impl RenderedRules {
    /// Prerenders these rules.
    pub(crate) fn of(rules: &[Rule]) -> Self {
        Self(rules.iter().map(RenderedRule::of).collect())
    }

    pub(crate) fn rule(&self, rule: usize) -> Option<&RenderedRule> {
        self.0.get(rule)
    }
}

impl RenderedRule {
    fn of(rule: &Rule) -> Self {
        let policies = QuotaPolicy::of(rule);
        let policy = HeaderValue::try_from(QuotaPolicy::list(&policies)).unwrap_or(HeaderValue::from_static(""));
        Self { policies, policy, reply: rule.on_limit.reply.as_ref().map(PreparedReply::new) }
    }
}
