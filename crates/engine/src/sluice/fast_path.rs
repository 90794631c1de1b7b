//! Fast path: decides requests that match at most one plain rule without building an `Outcome`.
//!
//! Nearly every request matches at most one rule and holds nothing afterwards: it is within the limits of its key, or
//! it is part of a flood that is not. An [`Outcome`](super::Outcome) is more than such a request needs: it keeps the
//! rules alive, records charges so that they can be given back, and has room for several rules, bans and stores.
//! Building, moving and dropping it takes longer than the decision itself.
//!
//! The fast path is the [pipeline](super::pipeline) for rules that use none of its steps but the limits: the same
//! lists, selection, states and counters. Which rules these are is determined when the snapshot is built
//! ([`RuleState::is_plain`](super::snapshot::RuleState::is_plain)). Every other request is left to the pipeline,
//! with nothing consumed or counted.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::Guard;

use super::account::{CountedResult, key_name_of};
use super::outcome::{Cause, RuleDecision};
use super::select::{Selection, each_check};
use super::snapshot::Snapshot;
use crate::clock::ClockHandle;
use crate::decision::Verdict;
use crate::rule::{Request, Rule};
use crate::table::KeyHash;

/// Fast path on the active rules. See [`Sluice::fast_path`].
///
/// [`Sluice::fast_path`]: super::Sluice::fast_path
pub struct FastPath<'a> {
    snapshot: Guard<Arc<Snapshot>>,
    clock: &'a ClockHandle,
}

impl<'a> FastPath<'a> {
    pub(super) const fn new(snapshot: Guard<Arc<Snapshot>>, clock: &'a ClockHandle) -> Self {
        Self { snapshot, clock }
    }

    /// Prefetches the state of a client from memory before the request is completely parsed. In a large table the
    /// memory access takes longer than anything else.
    #[inline]
    pub fn prefetch_client(&self, client: IpAddr) {
        self.snapshot.prefetch_client(client);
    }

    /// Decides the request if the fast path applies. `None`: it does not, and nothing was consumed or counted.
    #[inline]
    pub fn try_decide(&self, request: &Request<'_>) -> Option<FastDecision<'_>> {
        try_decide(&self.snapshot, request, self.clock)
    }
}

impl std::fmt::Debug for FastPath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FastPath").finish_non_exhaustive()
    }
}

/// Decision of the fast path; there is nothing to release. See [`FastPath::try_decide`].
pub struct FastDecision<'a> {
    snapshot: &'a Snapshot,
    decision: Option<RuleDecision>,
    key: KeyHash,
}

impl FastDecision<'_> {
    /// Rule set that decided the request.
    pub fn rules(&self) -> &[Rule] {
        self.snapshot.rules()
    }

    /// Extension that an adapter caches for these rules, as in [`Outcome::extension`](super::Outcome::extension).
    #[inline]
    pub fn extension<T: Any + Send + Sync>(&self, prepare: fn(&[Rule]) -> T) -> Option<&T> {
        self.snapshot.extension(prepare)
    }

    /// True if the request may proceed. Otherwise the one matching rule has refused it.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        self.verdict().is_admitted()
    }

    /// Verdict on the request.
    #[inline]
    pub fn verdict(&self) -> Verdict {
        self.decision.map_or(Verdict::Allowed, |result| result.decision.verdict)
    }

    /// Cause of the verdict.
    #[inline]
    pub fn cause(&self) -> Cause {
        match self.decision {
            Some(result) if !result.decision.is_admitted() => Cause::Limit(result.rule),
            _ => Cause::Rules,
        }
    }

    /// Hash of the key under which the rule at this position counts the request, as in
    /// [`Outcome::key_hash`](super::Outcome::key_hash).
    pub fn key_hash(&self, rule: usize) -> Option<u64> {
        self.decision.filter(|decision| decision.rule == rule).map(|_| self.key.0)
    }

    /// Decision of the matching rule; `None` if no rule matched.
    pub const fn decision(&self) -> Option<RuleDecision> {
        self.decision
    }
}

impl std::fmt::Debug for FastDecision<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FastDecision").field("decision", &self.decision).finish_non_exhaustive()
    }
}

/// Rules that match a request, for the fast path.
enum Matched {
    NoRule,
    OneRule {
        rule: usize,
        key: KeyHash,
        cost: u64,
    },
    /// Several rules, or one that needs more than a bucket lookup.
    Complex,
}

/// Decides a request if the fast path applies.
#[inline]
fn try_decide<'a>(snapshot: &'a Snapshot, request: &Request<'_>, clock: &ClockHandle) -> Option<FastDecision<'a>> {
    if snapshot.lists().check(request).is_some() {
        return None;
    }
    let mut matched = Matched::NoRule;
    each_check(
        snapshot,
        Selection::Matching,
        request,
        |_, _| {},
        |rule, key, cost| {
            matched = match matched {
                Matched::NoRule if snapshot.state(rule).is_plain() => Matched::OneRule { rule, key, cost },
                _ => Matched::Complex,
            };
        },
    );
    let (rule, key, cost) = match matched {
        Matched::NoRule => return Some(FastDecision { snapshot, decision: None, key: KeyHash(0) }),
        Matched::OneRule { rule, key, cost } => (rule, key, cost),
        Matched::Complex => return None,
    };
    let state = snapshot.state(rule);
    // Requests must not overtake queued ones.
    if state.limiter.as_ref()?.queue.is_occupied() {
        return None;
    }
    let now = clock.now();
    let decision = state.core.as_ref()?.decide_plain(key, now, cost)?;
    let result = match decision.is_admitted() {
        true => CountedResult::Admitted,
        // A refusal consumes nothing, so there is nothing to undo.
        false if snapshot.rules()[rule].on_limit.queue.is_some() => return None,
        false => CountedResult::Refused,
    };
    let source = Some((Selection::Matching, request));
    state.count(key, result, false, now, || Some(key_name_of(snapshot, source, rule)?.name));
    let decision = RuleDecision { rule, decision, shadow: false, degraded: false };
    Some(FastDecision { snapshot, decision: Some(decision), key })
}
