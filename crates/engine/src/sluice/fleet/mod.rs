//! Rules that a whole fleet counts together.
//!
//! They come last: lists, bans and local rules have admitted the request and hold what it costs. Rules
//! that hold a slice of their limit decide at once; otherwise the store is asked for all of them in one
//! question ([`FleetAsking`]). A refusal gives back what was taken here. Without an answer each rule's
//! policy decides, on its [`Share`] of the limit where it says so.

mod asking;
mod permits;
mod share;
mod waiting;

use std::sync::Arc;

use smallvec::SmallVec;

pub(super) use asking::FleetAsking;
use permits::{Out, Permits};
use share::Share;
use waiting::Waiting;

use super::decide::{Deciding, Said, Source, each_rule, name_for_later};
use super::outcome::Outcome;
use super::snapshot::{Means, RuleState};
use super::{RuleSetError, in_rule};
use crate::algorithm::{Check, Entry, Status};
use crate::fleet::{Answer, FleetKey, FleetLimits, FleetSaid, FleetTaken, Want, Wants};
use crate::limit::Limit;
use crate::limiter::Inner;
use crate::plan::Ruling;
use crate::rule::{OnStoreFailure, Request, Rule, Scope};
use crate::time::Timestamp;

/// What a cluster-wide rule is counted with.
pub(super) struct FleetState {
    pub(super) limits: Arc<dyn FleetLimits>,
    on_failure: OnStoreFailure,
    /// What is enforced without the store, if that is the rule's policy.
    share: Option<Arc<Share>>,
    waiting: Waiting,
    permits: Permits,
}

impl FleetState {
    /// What the store counts a rule with; `None` if it is counted here, or has nothing to count.
    pub(super) fn open(rule: &Rule, means: &Means<'_>) -> Result<Option<Arc<dyn FleetLimits>>, RuleSetError> {
        match (rule.scope, means.store) {
            (Scope::Cluster { .. }, Some(store)) if !rule.limits.is_empty() => {
                store.open(rule, means.seed).map(Some).map_err(in_rule(rule))
            }
            _ => Ok(None),
        }
    }

    /// The state of a rule that a store counts with these limits; `None` for any other.
    pub(super) fn take_up(
        rule: &Rule,
        means: &Means<'_>,
        memory: usize,
        old: Option<(&Rule, &RuleState)>,
        limits: Option<Arc<dyn FleetLimits>>,
    ) -> Result<Option<Arc<Self>>, RuleSetError> {
        let (Scope::Cluster { on_store_failure: on_failure, .. }, Some(limits)) = (rule.scope, limits) else {
            return Ok(None);
        };
        let old = old.and_then(|(_, state)| state.fleet.as_ref());
        let share = match on_failure {
            OnStoreFailure::LocalShare => {
                let old = old.and_then(|old| old.share.as_ref());
                Some(Share::take_up(rule, means, memory, old)?)
            }
            OnStoreFailure::Open | OnStoreFailure::Closed => None,
        };
        let (waiting, permits) = old.map(|old| (old.waiting.clone(), old.permits.clone())).unwrap_or_default();
        Ok(Some(Arc::new(Self { limits, on_failure, share, waiting, permits })))
    }

    /// The limiter of the process's share, if it has one.
    pub(super) fn share(&self) -> Option<Arc<Inner>> {
        self.share.as_ref().map(|share| share.counter())
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.count()
    }

    /// How many permits this process has out, of the store's and of its share.
    pub(super) fn permits(&self) -> u64 {
        let of_share = self.share.as_ref().map_or(0, |share| share.counter().permits());
        of_share + self.permits.count()
    }
}

/// What was taken from the store, for which checks.
pub(super) struct FleetHeld {
    pub(super) checks: SmallVec<[usize; 1]>,
    pub(super) taken: Box<dyn FleetTaken>,
    /// The permits among it, out as long as this is there.
    _permits: SmallVec<[Out; 1]>,
}

/// Wants of checks that are decided together.
pub(super) struct Question {
    checks: SmallVec<[usize; 1]>,
    wants: Wants,
}

impl Question {
    /// Whether none of its rules has spoken yet.
    fn is_open(&self, outcome: &Outcome) -> bool {
        self.checks.iter().all(|index| outcome.checks[*index].said.is_none())
    }
}

/// Decides cluster-wide rules that can be decided at once. Answers what the store must be asked for.
pub(super) fn decide_at_once(outcome: &mut Outcome, now: Timestamp) -> bool {
    if !outcome.snapshot.is_clustered() || !outcome.is_admitted() {
        return false;
    }
    let (mut open, mut refused) = (false, false);
    let mut taken: SmallVec<[usize; 4]> = SmallVec::new();
    for index in 0..outcome.checks.len() {
        let check = &mut outcome.checks[index];
        let Some(fleet) = &outcome.snapshot.state(check.rule).fleet else { continue };
        if check.said.is_some() || (refused && !check.shadow) {
            continue;
        }
        let Some((said, mark)) = fleet.limits.at_once(check.key.0, check.cost, now) else {
            open = true;
            continue;
        };
        let said = check.said.insert(Said::of_fleet(&said, Source::Lease(mark)));
        match (said.ruling.admits(), check.shadow) {
            (true, false) => taken.push(index),
            (false, false) => refused = true,
            (_, true) => {}
        }
    }
    if open || refused {
        // One of them refuses, or they must be asked together: as if nothing had been taken yet.
        for index in taken {
            let check = &mut outcome.checks[index];
            let source = check.said.take().map(|said| said.source);
            if let (Some(fleet), Some(Source::Lease(mark))) = (&outcome.snapshot.state(check.rule).fleet, source) {
                fleet.limits.settle(check.key.0, check.cost, 0, mark);
            }
        }
    }
    if refused || !open {
        outcome.conclude_fleet();
        return false;
    }
    true
}

/// What the store may be asked for: one question for all rules that are enforced, one for each that watches.
/// Also for those that have just been decided at once: who waits asks again, and then they may not be.
pub(super) fn questions(outcome: &mut Outcome, deciding: Deciding, request: &Request<'_>) -> Vec<Question> {
    if !outcome.snapshot.is_clustered() {
        return Vec::new();
    }
    // Who is refused later may be banned for it, or be told of, and then the request is gone.
    name_for_later(outcome, deciding, request);
    let snapshot = &outcome.snapshot;
    let mut enforced = Question { checks: SmallVec::new(), wants: Wants::new() };
    let mut questions = Vec::new();
    each_rule(snapshot, deciding, request, |rule, params| {
        let Some(fleet) = &snapshot.state(rule).fleet else { return };
        let Some(index) = outcome.checks.iter().position(|check| check.rule == rule) else { return };
        let check = &outcome.checks[index];
        let Some(key) = FleetKey::of(&snapshot.rules()[rule].key, request, params) else { return };
        let want = Want { limits: Arc::clone(&fleet.limits), hash: check.key.0, key, cost: check.cost };
        if check.shadow {
            questions.push(Question { checks: SmallVec::from_elem(index, 1), wants: SmallVec::from_iter([want]) });
        } else {
            enforced.checks.push(index);
            enforced.wants.push(want);
        }
    });
    if !enforced.checks.is_empty() {
        questions.insert(0, enforced);
    }
    questions
}

impl Said {
    fn of_fleet(said: &FleetSaid, source: Source) -> Self {
        let ruling = Ruling { check: said.check, limit: said.limit };
        Self { ruling, status: said.status, taken: None, source }
    }

    /// A verdict that nothing was counted for.
    fn assumed(check: Check, limit: u64) -> Self {
        let remaining = if check == Check::Now { limit } else { 0 };
        let status = Status { limit, remaining, reset: 0 };
        Self { ruling: Ruling { check, limit: 0 }, status, taken: None, source: Source::Assumed }
    }
}

impl Outcome {
    /// Takes in what the store said about some checks.
    fn hear(&mut self, checks: &[usize], answer: Answer, now: Timestamp) {
        match answer {
            Ok(granted) => {
                for (index, said) in checks.iter().zip(&granted.said).filter(|(_, said)| said.was_asked()) {
                    self.checks[*index].said = Some(Said::of_fleet(said, Source::Store));
                }
                if let Some(taken) = granted.taken {
                    let permits = checks.iter().filter_map(|index| self.fleet_permits(*index)).collect();
                    self.fleet.push(FleetHeld { checks: SmallVec::from_slice(checks), taken, _permits: permits });
                }
            }
            Err(_) => checks.iter().for_each(|index| self.decide_without_store(*index, now)),
        }
    }

    /// The permits that a check has taken from the store.
    fn fleet_permits(&self, index: usize) -> Option<Out> {
        let check = &self.checks[index];
        let limits = &self.snapshot.rules()[check.rule].limits;
        let fleet = self.snapshot.state(check.rule).fleet.as_ref()?;
        let permits = if limits.iter().all(Limit::is_concurrency) { check.cost } else { check.cost.min(1) };
        limits.iter().any(Limit::is_concurrency).then(|| fleet.permits.take(permits))
    }

    /// Decides one check by its rule's policy.
    fn decide_without_store(&mut self, index: usize, now: Timestamp) {
        let check = &mut self.checks[index];
        let Some(fleet) = &self.snapshot.state(check.rule).fleet else { return };
        let capacity = self.snapshot.rules()[check.rule].limits.first().map_or(0, Limit::capacity);
        let nodes = self.snapshot.nodes();
        let said = match (fleet.on_failure, &fleet.share) {
            (OnStoreFailure::Open, _) => Said::assumed(Check::Now, capacity),
            (OnStoreFailure::LocalShare, Some(share)) => match share.of(nodes) {
                Some(limiter) => {
                    let tried = limiter.take(check.key, now, check.cost, Entry::Enqueue);
                    let said = Said::from_decision(&tried.decision);
                    Said { taken: tried.taken, source: Source::Share, ..said }
                }
                None => Said::assumed(Check::Held, capacity),
            },
            (OnStoreFailure::Closed | OnStoreFailure::LocalShare, _) => Said::assumed(Check::Held, capacity),
        };
        check.said = Some(said);
    }

    /// Draws the verdict once all rules have spoken; a refusal gives back what was taken.
    fn conclude_fleet(&mut self) {
        self.conclude();
        if !self.is_admitted() {
            self.end(|_, _| 0);
        }
    }
}
