//! Client-visible view of a decision.

use std::sync::Arc;

use sluicegate_engine::overload::OverloadNotice;
use sluicegate_engine::rule::Rule;
use sluicegate_engine::sluice::{Cause, FastDecision, RuleDecision};
use sluicegate_engine::{Outcome, Verdict};

use crate::prerendered::RenderedRules;

/// View of a decided request: an [`Outcome`], or a [`FastDecision`] of the fast path.
pub trait DecisionView: Prerendered {
    /// The rule set that decided.
    fn rules(&self) -> &[Rule];

    /// The verdict on the request.
    fn verdict(&self) -> Verdict;

    /// The cause of the verdict.
    fn cause(&self) -> Cause;

    /// The decision of each rule.
    fn rule_decisions(&self) -> impl Iterator<Item = RuleDecision>;

    /// Hash of the key under which the rule at this position counts the request.
    fn key_hash(&self, rule: usize) -> Option<u64>;

    /// The overload notice, if overload protection refused the request.
    fn overload_notice(&self) -> Option<Arc<OverloadNotice>>;

    /// Position of the rule that refused the request.
    fn refusing_rule(&self) -> Option<usize> {
        match self.cause() {
            Cause::Limit(rule) | Cause::Ban(rule) | Cause::Overload(rule) => Some(rule),
            Cause::Rules | Cause::AllowList(_) | Cause::DenyList(_) => None,
        }
    }
}

/// Cached rendering of the rule set, which also keeps [`DecisionView`] from being implemented elsewhere.
pub trait Prerendered {
    /// The prerendered rules, built on first use; `None` if the extension slot of the rule set is taken.
    #[doc(hidden)]
    fn rendered_rules(&self) -> Option<&RenderedRules>;
}

impl Prerendered for Outcome {
    fn rendered_rules(&self) -> Option<&RenderedRules> {
        self.extension(RenderedRules::of)
    }
}

impl Prerendered for FastDecision<'_> {
    fn rendered_rules(&self) -> Option<&RenderedRules> {
        self.extension(RenderedRules::of)
    }
}

impl DecisionView for Outcome {
    fn rules(&self) -> &[Rule] {
        Self::rules(self)
    }

    fn verdict(&self) -> Verdict {
        Self::verdict(self)
    }

    fn cause(&self) -> Cause {
        Self::cause(self)
    }

    fn rule_decisions(&self) -> impl Iterator<Item = RuleDecision> {
        self.decisions().map(|(_, rule_decision)| rule_decision)
    }

    fn key_hash(&self, rule: usize) -> Option<u64> {
        Self::key_hash(self, rule)
    }

    fn overload_notice(&self) -> Option<Arc<OverloadNotice>> {
        Self::overload_notice(self)
    }
}

impl DecisionView for FastDecision<'_> {
    fn rules(&self) -> &[Rule] {
        Self::rules(self)
    }

    fn verdict(&self) -> Verdict {
        Self::verdict(self)
    }

    fn cause(&self) -> Cause {
        Self::cause(self)
    }

    fn rule_decisions(&self) -> impl Iterator<Item = RuleDecision> {
        self.decision().into_iter()
    }

    fn key_hash(&self, rule: usize) -> Option<u64> {
        Self::key_hash(self, rule)
    }

    /// Requests that match an overload rule never take the fast path.
    fn overload_notice(&self) -> Option<Arc<OverloadNotice>> {
        None
    }
}
