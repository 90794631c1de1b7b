//! Decision of one request: selects the checks and decides them all or nothing.

use std::num::IntErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;

use super::ban::KeyName;
use super::cluster::{self, PendingCheck};
use super::outcome::{Cause, Outcome};
use super::overload::GateMode;
use super::snapshot::{RuleState, Snapshot};
use crate::algorithm::{self, AdmitMode, Status};
use crate::clock::ClockHandle;
use crate::decision::{Decision, Verdict};
use crate::limit_set::{Charge, Evaluation};
use crate::limiter::{LimiterCore, STATE_UNREACHABLE};
use crate::rule::key::{hash_key, readable_key};
use crate::rule::{Attribute, Cost, ListHit, Params, Request, Rule};
use crate::store::{CanonicalKey, LeaseToken};
use crate::table::{KeyHash, KeyHasher};
use crate::time::Timestamp;
use crate::wait::{WakeId, block_on};

/// Check of one rule for one request, with its result.
pub(super) struct RuleCheck {
    pub(super) rule: usize,
    pub(super) key: KeyHash,
    pub(super) cost: u64,
    /// Set for rules in shadow mode.
    pub(super) shadow: bool,
    pub(super) result: Option<RuleCheckResult>,
    /// Readable and canonical key. Only built if it may be needed after the request is gone.
    pub(super) key_name: Option<Box<KeyName>>,
}

/// Result of a rule check.
pub(super) struct RuleCheckResult {
    pub(super) evaluation: Evaluation,
    pub(super) status: Status,
    pub(super) charge: Option<Charge>,
    pub(super) source: DecisionSource,
}

/// Origin of a rule's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecisionSource {
    /// Counted by this process alone.
    Local,
    /// Decided by this process from its lease of a cluster-wide limit.
    Lease(LeaseToken),
    /// Decided by the store.
    Store,
    /// Decided by this process from its local share because the store is unavailable.
    LocalShare,
    /// Assumed by the failure policy because the store is unavailable.
    Assumed,
}

impl DecisionSource {
    /// True if the store should have decided but was unavailable.
    pub(super) const fn is_degraded(self) -> bool {
        matches!(self, Self::LocalShare | Self::Assumed)
    }
}

impl RuleCheckResult {
    /// Result of a decision that did not evaluate the limits.
    pub(super) fn from_decision(decision: &Decision) -> Self {
        let evaluation = Evaluation { check: decision.verdict.into(), limit: decision.limit };
        Self { evaluation, status: decision.status, charge: None, source: DecisionSource::Local }
    }
}

/// Maximum number of enforced rules with limits per request. A request that matches more is refused.
const MAX_ENFORCED_RULES: usize = 256;

/// Checks of one request, in rule order.
pub(super) type Checks = SmallVec<[RuleCheck; 2]>;

/// Queueing mode of a decision.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitMode {
    /// Decides immediately; the result may include a slot in a paced queue.
    Immediate,
    /// May wait here if a rule has a queue. Such a rule then admits the request only once it may proceed.
    MayWait,
}

/// Selection of the rules to evaluate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    /// Rules with a target that matches the request.
    Matching,
    /// The rule at this position, regardless of its target and side.
    Only(usize),
}

pub(super) fn decide(
    snapshot: Arc<Snapshot>,
    selection: Selection,
    request: &Request<'_>,
    clock: &ClockHandle,
) -> Outcome {
    let mut outcome = Outcome::new(snapshot);
    let now = decide_uncounted(&mut outcome, selection, request, clock, WaitMode::Immediate);
    if cluster::decide_from_leases(&mut outcome, now) {
        let queries = cluster::store_queries(&mut outcome, selection, request);
        let (mut outcome, now) = block_on(PendingCheck::begin(outcome, queries, WaitMode::Immediate, clock));
        if outcome.is_gated() {
            outcome.pass_gates(GateMode::Immediate);
            outcome.count(now, Some((selection, request)));
        }
        return outcome;
    }
    if outcome.is_gated() {
        outcome.pass_gates(GateMode::Immediate);
    }
    if !outcome.is_admitted() {
        capture_ban_keys(&mut outcome, selection, request);
    }
    outcome.count(now, Some((selection, request)));
    outcome
}

/// Decides without updating the counters, for requests that may be evaluated again. Fills in the outcome in
/// place, as it is large to move, and returns the time of the decision.
pub(super) fn decide_uncounted(
    outcome: &mut Outcome,
    selection: Selection,
    request: &Request<'_>,
    clock: &ClockHandle,
    wait_mode: WaitMode,
) -> Timestamp {
    let hit = outcome.snapshot.lists().check(request);
    if let Some(hit) = hit {
        let counters = outcome.snapshot.list_counters();
        let counter;
        (outcome.verdict, outcome.cause, counter) = match hit {
            ListHit::Allow(entry) => (Verdict::Allowed, Cause::AllowList(entry), &counters.allowed),
            ListHit::Deny(entry) => (Verdict::Denied { retry_after: None }, Cause::DenyList(entry), &counters.denied),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        return clock.now();
    }
    select(&outcome.snapshot, selection, request, &mut outcome.checks, |_, _| {});
    let now = clock.now();
    if let Some((rule, remaining)) = banned(&outcome.snapshot, &outcome.checks, now) {
        outcome.snapshot.state(rule).counters.banned.fetch_add(1, Ordering::Relaxed);
        outcome.verdict = Verdict::Denied { retry_after: Some(remaining) };
        outcome.cause = Cause::Ban(rule);
        return now;
    }
    if !refuse_behind_queue(outcome, now) {
        evaluate(outcome, now, wait_mode);
    }
    outcome.conclude();
    now
}

/// Evaluates the local rules again.
pub(super) fn reevaluate(outcome: &mut Outcome, now: Timestamp) {
    outcome.checks.iter_mut().for_each(|check| check.result = None);
    if !refuse_behind_queue(outcome, now) {
        evaluate(outcome, now, WaitMode::MayWait);
    }
    outcome.conclude();
}

/// Collects the checks of a request. `each` is called for every matching rule, including rules with a key that
/// the request lacks.
pub(super) fn select(
    snapshot: &Snapshot,
    selection: Selection,
    request: &Request<'_>,
    checks: &mut Checks,
    each: impl FnMut(usize, &Params<'_>),
) {
    each_check(snapshot, selection, request, each, |rule, key, cost| {
        let shadow = snapshot.rules()[rule].is_shadow();
        checks.push(RuleCheck { rule, key, cost, shadow, result: None, key_name: None });
    });
}

/// Calls `counts` for each rule that counts the request, with its key and cost. `each` is called for every
/// matching rule, including rules with a key that the request lacks.
#[inline]
pub(super) fn each_check(
    snapshot: &Snapshot,
    selection: Selection,
    request: &Request<'_>,
    mut each: impl FnMut(usize, &Params<'_>),
    mut counts: impl FnMut(usize, KeyHash, u64),
) {
    each_rule(snapshot, selection, request, |index, params| {
        let rule = &snapshot.rules()[index];
        each(index, params);
        let mut hasher = KeyHasher::new(snapshot.seed());
        if hash_key(&rule.key, request, params, &mut hasher) {
            let key = hasher.key();
            if let Some(core) = &snapshot.state(index).core {
                core.prefetch(key);
            }
            counts(index, key, cost(rule, request, params));
        }
    });
}

/// Calls `found` for each selected rule, with the parameters that its pattern captured.
pub(super) fn each_rule(
    snapshot: &Snapshot,
    selection: Selection,
    request: &Request<'_>,
    mut found: impl FnMut(usize, &Params<'_>),
) {
    match selection {
        Selection::Matching => snapshot.index().matching(snapshot.rules(), request, found),
        Selection::Only(rule) => {
            // The pattern is not evaluated, so there are no parameters.
            let params = Params::new();
            if snapshot.rules()[rule].when.as_ref().is_none_or(|when| when.holds(request, &params)) {
                found(rule, &params);
            }
        }
    }
}

/// Cost of a request under a rule. A request with a cost of zero consumes nothing under any rule.
#[inline]
fn cost(rule: &Rule, request: &Request<'_>, params: &Params<'_>) -> u64 {
    match &rule.cost {
        _ if request.cost == 0 => 0,
        Cost::Fixed(cost) => cost.saturating_mul(request.cost),
        Cost::Estimate { reserve, .. } => *reserve,
        Cost::Attribute(attribute) => attribute_cost(attribute, request, params),
    }
}

fn attribute_cost(attribute: &Attribute, request: &Request<'_>, params: &Params<'_>) -> u64 {
    match request.value(attribute, params).map(|text| text.trim().parse::<u64>()) {
        Some(Ok(number)) => number,
        // A number that overflows exceeds every limit; it must not count as one.
        Some(Err(error)) if *error.kind() == IntErrorKind::PosOverflow => u64::MAX,
        _ => 1,
    }
}

fn banned(snapshot: &Snapshot, checks: &[RuleCheck], now: Timestamp) -> Option<(usize, Duration)> {
    checks.iter().filter(|check| !check.shadow).find_map(|check| {
        let bans = snapshot.state(check.rule).bans.as_ref()?;
        Some((check.rule, bans.remaining(check.key, now)?))
    })
}

/// Refuses the request if others are queued for one of its keys, so that it does not overtake them. Returns
/// true if it was refused.
fn refuse_behind_queue(outcome: &mut Outcome, now: Timestamp) -> bool {
    let mut waiting = false;
    for check in outcome.checks.iter_mut().filter(|check| !check.shadow && check.cost > 0) {
        if let Some(limiter) = outcome.snapshot.state(check.rule).decider()
            && limiter.has_waiters(check.key)
        {
            check.result =
                Some(RuleCheckResult::from_decision(&limiter.denial_behind_queue(check.key, now, check.cost)));
            waiting = true;
        }
    }
    waiting
}

/// Decides all checks: the enforced ones together, then each shadow check separately.
pub(super) fn evaluate(outcome: &mut Outcome, now: Timestamp, wait_mode: WaitMode) {
    let snapshot = &*outcome.snapshot;
    let checks = &mut outcome.checks;
    let mut enforced: SmallVec<[(u64, usize); 8]> = SmallVec::new();
    for (index, check) in checks.iter_mut().enumerate() {
        check.result = None;
        if let Some(limiter) = snapshot.state(check.rule).decider()
            && !check.shadow
        {
            enforced.push((limiter.id(), index));
        }
    }
    if enforced.len() > MAX_ENFORCED_RULES {
        // Each limiter stays locked during the check of the next. Refuse the request rather than run out of stack.
        let result = RuleCheckResult::from_decision(&STATE_UNREACHABLE);
        checks[enforced[MAX_ENFORCED_RULES].1].result = Some(result);
        return;
    }
    // Limiters are always locked in the same order to avoid deadlocks.
    enforced.sort_unstable();
    let mut transaction = AllOrNothing { snapshot, checks, order: &enforced, now, wait_mode };
    if transaction.check_from(0, true) {
        for check in checks.iter_mut().filter(|check| check.shadow) {
            if let Some(limiter) = snapshot.state(check.rule).decider() {
                let attempt = limiter.take(check.key, now, check.cost, AdmitMode::Reserve);
                let result = RuleCheckResult::from_decision(&attempt.decision);
                check.result = Some(RuleCheckResult { charge: attempt.charge, ..result });
            }
        }
    }
}

/// All-or-nothing transaction over several limiters: each stays locked during the check of the next.
struct AllOrNothing<'a> {
    snapshot: &'a Snapshot,
    checks: &'a mut Checks,
    /// Checks, ordered by limiter id.
    order: &'a [(u64, usize)],
    now: Timestamp,
    wait_mode: WaitMode,
}

impl AllOrNothing<'_> {
    /// Checks the limiters from this one on; `admitted_so_far` is the result of the previous ones.
    fn check_from(&mut self, from: usize, admitted_so_far: bool) -> bool {
        let Some(&(_, index)) = self.order.get(from) else { return admitted_so_far };
        let (key, cost) = (self.checks[index].key, self.checks[index].cost);
        let rule_state = self.snapshot.state(self.checks[index].rule);
        let Some(limiter) = rule_state.decider() else { return self.check_from(from + 1, admitted_so_far) };
        let now = self.now;
        let queues = || self.snapshot.rules()[self.checks[index].rule].on_limit.queue.is_some();
        let entry =
            if self.wait_mode == WaitMode::MayWait && queues() { AdmitMode::Immediate } else { AdmitMode::Reserve };
        let mut all_admit = false;
        let slot = limiter.with_state_in(rule_state.core.as_deref(), key, now, &mut |limit_set, state| {
            let evaluation = limit_set.check(state, now, cost, entry);
            all_admit = self.check_from(from + 1, admitted_so_far && evaluation.admits());
            let result = self.checks[index].result.insert(RuleCheckResult {
                evaluation,
                status: Status::default(),
                charge: None,
                source: DecisionSource::Local,
            });
            if all_admit {
                limit_set.take(state, now, cost, limiter.is_reservable(), &mut result.charge);
            }
            result.status = limit_set.report(&mut result.evaluation, state, now);
            all_admit && cost > 0
        });
        if let Some(RuleCheckResult { charge: Some(charge), .. }) = &mut self.checks[index].result {
            charge.slot = slot;
            limiter.record_charge(charge);
        }
        all_admit
    }
}

impl Outcome {
    /// Derives the verdict from the results of the rules.
    pub(super) fn conclude(&mut self) {
        let mut worst = algorithm::Check::Now;
        self.cause = Cause::Rules;
        for check in self.checks.iter().filter(|check| !check.shadow) {
            if let Some(result) = &check.result
                && result.evaluation.check.severity() > worst.severity()
            {
                worst = result.evaluation.check;
                if !result.evaluation.admits() {
                    self.cause = Cause::Limit(check.rule);
                }
            }
        }
        self.verdict = worst.verdict();
    }

    /// Rules that refuse the request.
    pub(super) fn refusing(&self) -> impl Iterator<Item = &Rule> {
        let refusing = self.checks.iter().filter(|check| !check.shadow && check.refuses());
        refusing.map(|check| &self.snapshot.rules()[check.rule])
    }

    /// True if every refusing rule allows the request to wait.
    pub(super) fn may_wait(&self) -> bool {
        !self.is_admitted() && self.refusing().all(|rule| rule.on_limit.queue.is_some())
    }

    /// Registers wakeups for permits that other limiters than `own` wait for. Returns true if there is a new
    /// registration.
    pub(super) fn register_wakeups(
        &self,
        own: &Arc<LimiterCore>,
        waker: &Waker,
        registration: &mut WakeRegistration,
    ) -> bool {
        let mut registered = false;
        for check in self.checks.iter().filter(|check| !check.shadow && check.waits_for_release()) {
            if let Some(limiter) = &self.snapshot.state(check.rule).limiter
                && !Arc::ptr_eq(limiter, own)
                && limiter.queue.watch(check.key, registration.wake_id, waker)
            {
                registration.add(limiter, check.key);
                registered = true;
            }
        }
        registered
    }

    /// Updates the counters of every rule and counts refusals towards bans. A refusal because the store is
    /// unavailable does not count as a violation of the limit. Key names come from the request or, without it, must
    /// have been captured.
    pub(super) fn count(&mut self, now: Timestamp, request: Option<(Selection, &Request<'_>)>) {
        let admitted = self.is_admitted();
        for check in &mut self.checks {
            let state = self.snapshot.state(check.rule);
            if let Some(tracker) = &state.tracker {
                let refused = check.refuses() || self.cause == Cause::Ban(check.rule);
                tracker.record(check.key, refused, now, || match (&check.key_name, request) {
                    (Some(named), _) => Some(named.name.clone()),
                    (None, Some((selection, request))) => {
                        readable_key_of(&self.snapshot, selection, check.rule, request)
                    }
                    (None, None) => None,
                });
            }
            let degraded = check.is_degraded();
            if degraded && (admitted || check.refuses()) {
                state.counters.degraded.fetch_add(1, Ordering::Relaxed);
            }
            if check.refuses() {
                state.counters.refused.fetch_add(1, Ordering::Relaxed);
                if let Some(bans) = &state.bans
                    && !degraded
                    // The process is overloaded; the client did not violate a limit.
                    && self.cause != Cause::Overload(check.rule)
                    && bans.record_refusal(check.key, now)
                    && let Some(key_name) = check.key_name.take()
                {
                    bans.record(&self.snapshot.rules()[check.rule].name, *key_name, check.key, now);
                }
            } else if admitted && (check.result.is_some() || state.gate.is_some()) {
                state.counters.admitted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Wakeups that a request registered at other limiters than the one it is queued at.
pub(super) struct WakeRegistration {
    wake_id: WakeId,
    keys: Vec<(Arc<LimiterCore>, KeyHash)>,
}

impl WakeRegistration {
    pub(super) fn new() -> Self {
        Self { wake_id: WakeId::new(), keys: Vec::new() }
    }

    fn add(&mut self, limiter: &Arc<LimiterCore>, key: KeyHash) {
        if !self.keys.iter().any(|(known, of)| Arc::ptr_eq(known, limiter) && *of == key) {
            self.keys.push((Arc::clone(limiter), key));
        }
    }
}

impl Drop for WakeRegistration {
    fn drop(&mut self) {
        for (limiter, key) in self.keys.drain(..) {
            limiter.queue.unwatch(key, self.wake_id);
        }
    }
}

impl RuleCheck {
    /// True if it is refused until permits are released.
    fn waits_for_release(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.evaluation.check == algorithm::Check::Held)
    }

    /// True if it was decided without the store that counts it.
    pub(super) fn is_degraded(&self) -> bool {
        self.result.as_ref().is_some_and(|result| result.source.is_degraded())
    }

    pub(super) fn refuses(&self) -> bool {
        self.result.as_ref().is_some_and(|result| !result.evaluation.admits())
    }
}

/// Captures the names of keys that may be banned for a refusal.
pub(super) fn capture_ban_keys(outcome: &mut Outcome, selection: Selection, request: &Request<'_>) {
    capture_key_names(outcome, selection, request, |state| state.bans.is_some());
}

/// Captures the names of keys that are needed after the request is gone.
pub(super) fn capture_keys(outcome: &mut Outcome, selection: Selection, request: &Request<'_>) {
    capture_key_names(outcome, selection, request, |state| state.bans.is_some() || state.tracker.is_some());
}

fn capture_key_names(
    outcome: &mut Outcome,
    selection: Selection,
    request: &Request<'_>,
    wanted: fn(&RuleState) -> bool,
) {
    let Outcome { snapshot, checks, .. } = outcome;
    if !checks.iter().any(|check| check.key_name.is_none() && wanted(snapshot.state(check.rule))) {
        return;
    }
    each_rule(snapshot, selection, request, |index, params| {
        if let Some(check) = checks.iter_mut().find(|check| check.rule == index) {
            let parts = &snapshot.rules()[index].key;
            let key_name = readable_key(parts, request, params).zip(CanonicalKey::of(parts, request, params));
            check.key_name = key_name.map(|(name, key)| Box::new(KeyName { name, key }));
        }
    });
}

/// Readable key of a request under one rule.
#[cold]
pub(super) fn readable_key_of(
    snapshot: &Snapshot,
    selection: Selection,
    rule: usize,
    request: &Request<'_>,
) -> Option<String> {
    let mut name = None;
    each_rule(snapshot, selection, request, |index, params| {
        if index == rule {
            name = readable_key(&snapshot.rules()[index].key, request, params);
        }
    });
    name
}
