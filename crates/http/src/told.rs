//! What was decided, as far as clients are told of it.

use std::sync::Arc;

use sluicegate_engine::gate::Notice;
use sluicegate_engine::rule::Rule;
use sluicegate_engine::sluice::{Cause, RuleDecision, Waved};
use sluicegate_engine::{Outcome, Verdict};

use crate::faces::Faces;

/// An outcome, or what stands for one where none was made.
pub(crate) trait Told {
    /// The rules that decided.
    fn rules(&self) -> &[Rule];

    /// Their faces, prepared by the first who asks; `None` if others keep something there.
    fn faces(&self) -> Option<&Faces>;

    /// How the request fares.
    fn verdict(&self) -> Verdict;

    /// What that hangs on.
    fn cause(&self) -> Cause;

    /// What each of them said.
    fn said(&self) -> impl Iterator<Item = RuleDecision>;

    /// What is said about the strain that it is refused for.
    fn strain(&self) -> Option<Arc<Notice>>;
}

impl Told for Outcome {
    fn rules(&self) -> &[Rule] {
        Self::rules(self)
    }

    fn verdict(&self) -> Verdict {
        Self::verdict(self)
    }

    fn cause(&self) -> Cause {
        Self::cause(self)
    }

    fn faces(&self) -> Option<&Faces> {
        self.prepared(Faces::of)
    }

    fn said(&self) -> impl Iterator<Item = RuleDecision> {
        self.decisions().map(|(_, said)| said)
    }

    fn strain(&self) -> Option<Arc<Notice>> {
        Self::strain(self)
    }
}

impl Told for Waved<'_> {
    fn rules(&self) -> &[Rule] {
        Self::rules(self)
    }

    fn verdict(&self) -> Verdict {
        Self::verdict(self)
    }

    fn cause(&self) -> Cause {
        Self::cause(self)
    }

    fn faces(&self) -> Option<&Faces> {
        self.prepared(Faces::of)
    }

    fn said(&self) -> impl Iterator<Item = RuleDecision> {
        self.decision().into_iter()
    }

    /// Who meets a rule that protects the process is not waved.
    fn strain(&self) -> Option<Arc<Notice>> {
        None
    }
}
