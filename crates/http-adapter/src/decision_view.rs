//! Client-visible view of a decision.

use std::sync::Arc;

use sluicegate_engine::overload::OverloadNotice;
use sluicegate_engine::rule::Rule;
use sluicegate_engine::sluice::{Cause, FastDecision, RuleDecision};
use sluicegate_engine::{Outcome, Verdict};

use crate::prerendered::RenderedRules;

/// View of an outcome, or of a fast-path decision without one.
pub(crate) trait DecisionView {
    /// The rule set that decided.
    fn rules(&self) -> &[Rule];

    /// Its prerendered rules, built on first use; `None` if the extension slot of the rule set is taken.
    fn rendered_rules(&self) -> Option<&RenderedRules>;

    /// The verdict on the request.
    fn verdict(&self) -> Verdict;

    /// The cause of the verdict.
    fn cause(&self) -> Cause;

    /// The decision of each rule.
    fn rule_decisions(&self) -> impl Iterator<Item = RuleDecision>;

    /// The overload notice, if overload protection refused the request.
    fn overload_notice(&self) -> Option<Arc<OverloadNotice>>;
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

    fn rendered_rules(&self) -> Option<&RenderedRules> {
        self.extension(RenderedRules::of)
    }

    fn rule_decisions(&self) -> impl Iterator<Item = RuleDecision> {
        self.decisions().map(|(_, rule_decision)| rule_decision)
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

    fn rendered_rules(&self) -> Option<&RenderedRules> {
        self.extension(RenderedRules::of)
    }

    fn rule_decisions(&self) -> impl Iterator<Item = RuleDecision> {
        self.decision().into_iter()
    }

    /// Requests that match an overload rule never take the fast path.
    fn overload_notice(&self) -> Option<Arc<OverloadNotice>> {
        None
    }
}
