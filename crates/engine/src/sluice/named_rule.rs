//! Decisions by one rule that the program selects itself.

use std::sync::Arc;

use super::pipeline::DecisionMode;
use super::select::Selection;
use super::snapshot::Snapshot;
use super::{Admission, Outcome, Sluice};
use crate::rule::Request;

/// Rule of a [`Sluice`], found by its name ([`Sluice::rule`]), that decides requests alone.
///
/// The rule's target and direction are ignored, so its pattern captures nothing. Its condition, key, cost, bans,
/// mode and limits apply, and so do the lists. It stays the rule of its rule set: find it again for each request.
///
/// ```
/// use sluicegate_engine::{Sluice, rule::{Request, Rule}};
///
/// let sluice = Sluice::builder().rule(Rule::new("mails", ["1/1m".parse()?])).build()?;
/// let mail = Request::new("", "");
/// assert!(sluice.rule("mails").is_some_and(|rule| rule.decide(&mail).is_admitted()));
/// assert!(sluice.rule("mails").is_some_and(|rule| !rule.decide(&mail).is_admitted()));
/// assert!(sluice.rule("letters").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct NamedRule<'a> {
    sluice: &'a Sluice,
    snapshot: Arc<Snapshot>,
    position: usize,
}

impl<'a> NamedRule<'a> {
    pub(super) fn find(sluice: &'a Sluice, name: &str) -> Option<Self> {
        let snapshot = sluice.shared.snapshot.load_full();
        let position = snapshot.position(name)?;
        Some(Self { sluice, snapshot, position })
    }

    /// [`Sluice::decide`] by this rule only.
    pub fn decide(self, request: &Request<'_>) -> Outcome {
        let selection = Selection::Only(self.position);
        Admission::decide_blocking(self.snapshot, selection, request, self.sluice.clock(), DecisionMode::Immediate)
    }

    /// [`Sluice::decide_async`] by this rule only.
    pub fn decide_async(self, request: &Request<'_>) -> Admission {
        self.start(request, DecisionMode::Remote)
    }

    /// [`Sluice::admit`] by this rule only.
    pub fn admit(self, request: &Request<'_>) -> Admission {
        self.start(request, DecisionMode::Wait)
    }

    fn start(self, request: &Request<'_>, mode: DecisionMode) -> Admission {
        self.sluice.start(self.snapshot, Selection::Only(self.position), request, mode)
    }
}

impl std::fmt::Debug for NamedRule<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NamedRule").field(&self.snapshot.rules()[self.position].name).finish()
    }
}
