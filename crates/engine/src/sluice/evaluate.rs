//! Local limits of a request, decided all or nothing.

use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;

use super::check::{Checks, DecisionSource, RuleCheckResult};
use super::outcome::{Cause, Outcome};
use super::pipeline::DecisionMode;
use super::snapshot::Snapshot;
use crate::algorithm::{self, AdmitMode, Status};
use crate::limiter::{LimiterCore, STATE_UNREACHABLE};
use crate::rule::Rule;
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::WakeId;

/// Maximum number of enforced rules with limits per request. A request that matches more is refused.
const MAX_ENFORCED_RULES: usize = 256;

/// Evaluates the local rules, unless others are queued for a key of the request.
pub(super) fn evaluate_in_turn(outcome: &mut Outcome, now: Timestamp, mode: DecisionMode) {
    outcome.checks.iter_mut().for_each(|check| check.result = None);
    if !refuse_behind_queue(outcome, now) {
        evaluate(outcome, now, mode);
    }
    outcome.conclude();
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
pub(super) fn evaluate(outcome: &mut Outcome, now: Timestamp, mode: DecisionMode) {
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
    let mut transaction = AllOrNothing { snapshot, checks, order: &enforced, now, mode };
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
    mode: DecisionMode,
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
        let entry = if self.mode == DecisionMode::Wait && queues() { AdmitMode::Immediate } else { AdmitMode::Reserve };
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
