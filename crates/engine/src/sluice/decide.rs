//! Deciding one request: select the checks, decide them all or nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use smallvec::SmallVec;

use super::outcome::{Cause, Outcome, RuleDecision};
use super::snapshot::Snapshot;
use crate::algorithm::Entry;
use crate::decision::{Decision, Verdict};
use crate::limiter::{Inner, Pass};
use crate::plan::{Marks, Plan};
use crate::rule::key::{hash_key, readable_key};
use crate::rule::{Cost, ListHit, Params, Request, Rule};
use crate::table::{KeyHash, KeyHasher, Place};
use crate::time::Timestamp;

/// One rule's question about one request.
pub(super) struct Check {
    pub(super) rule: usize,
    pub(super) key: KeyHash,
    pub(super) cost: u64,
    /// The key for people; only made where a ban may follow.
    pub(super) name: Option<String>,
}

/// The questions about one request.
pub(super) type Checks = SmallVec<[Check; 2]>;

/// What the rules said together.
pub(super) struct Ruled {
    pub(super) verdict: Verdict,
    /// The rule the verdict hangs on, if it is a refusal.
    pub(super) refused_by: Option<usize>,
    pub(super) decisions: SmallVec<[RuleDecision; 2]>,
    pub(super) passes: SmallVec<[(usize, Pass); 2]>,
}

pub(super) fn decide(snapshot: Arc<Snapshot>, request: &Request<'_>, now: Timestamp) -> Outcome {
    match snapshot.lists().check(request) {
        Some(ListHit::Allow(entry)) => return by_list(snapshot, Verdict::Allowed, Cause::AllowList(entry)),
        Some(ListHit::Deny(entry)) => {
            let verdict = Verdict::Denied { retry_after: None };
            return by_list(snapshot, verdict, Cause::DenyList(entry));
        }
        None => {}
    }
    let mut checks = select(&snapshot, request, |_, _, _| {});
    if let Some((rule, remaining)) = banned(&snapshot, &checks, now) {
        snapshot.state(rule).counters.banned.fetch_add(1, Ordering::Relaxed);
        let verdict = Verdict::Denied { retry_after: Some(remaining) };
        let cause = Cause::Ban(rule);
        return Outcome { snapshot, verdict, cause, decisions: SmallVec::new(), passes: SmallVec::new(), checks };
    }
    let ruled = behind_lines(&snapshot, &checks, now).unwrap_or_else(|| rule(&snapshot, &checks, now, Entry::Enqueue));
    if ruled.refused_by.is_some() {
        name_for_bans(&snapshot, &mut checks, request);
    }
    let outcome = ruled.into_outcome(snapshot, checks);
    let may_wait = outcome.rule().is_some_and(|rule| rule.on_limit.queue.is_some());
    if !may_wait {
        count(&outcome, now);
    }
    outcome
}

fn by_list(snapshot: Arc<Snapshot>, verdict: Verdict, cause: Cause) -> Outcome {
    let (decisions, passes, checks) = (SmallVec::new(), SmallVec::new(), Checks::new());
    Outcome { snapshot, verdict, cause, decisions, passes, checks }
}

/// The checks of a request. `each` sees every matching rule, with the key if the request has it.
pub(super) fn select(
    snapshot: &Snapshot,
    request: &Request<'_>,
    mut each: impl FnMut(usize, Option<KeyHash>, &Params<'_>),
) -> Checks {
    let mut checks = Checks::new();
    snapshot.index().matching(snapshot.rules(), request, |index, params| {
        let rule = &snapshot.rules()[index];
        let mut hasher = KeyHasher::new(snapshot.seed());
        let key = hash_key(&rule.key, request, params, &mut hasher).then(|| hasher.key());
        each(index, key, params);
        if let Some(key) = key {
            checks.push(Check { rule: index, key, cost: cost(rule, request, params), name: None });
        }
    });
    checks
}

fn cost(rule: &Rule, request: &Request<'_>, params: &Params<'_>) -> u64 {
    match &rule.cost {
        Cost::Fixed(cost) => cost.saturating_mul(request.cost),
        Cost::Estimate(cost) => *cost,
        Cost::Attribute(attribute) => {
            let number = request.value(attribute, params).and_then(|text| text.trim().parse().ok());
            number.unwrap_or(1)
        }
    }
}

fn banned(snapshot: &Snapshot, checks: &[Check], now: Timestamp) -> Option<(usize, std::time::Duration)> {
    checks.iter().find_map(|check| {
        let bans = snapshot.state(check.rule).bans.as_ref()?;
        let remaining = bans.remaining(check.key, now)?;
        (!snapshot.rules()[check.rule].is_shadow()).then_some((check.rule, remaining))
    })
}

/// The limiter of a check, if its rule has limits.
fn limiter<'a>(snapshot: &'a Snapshot, check: &Check) -> Option<&'a Arc<Inner>> {
    snapshot.state(check.rule).limiter.as_ref()
}

/// A refusal if others wait for one of the keys: nobody passes them.
fn behind_lines(snapshot: &Snapshot, checks: &[Check], now: Timestamp) -> Option<Ruled> {
    let mut decisions = SmallVec::new();
    for check in checks {
        let shadow = snapshot.rules()[check.rule].is_shadow();
        if let Some(limiter) = limiter(snapshot, check)
            && !shadow
            && check.cost > 0
            && limiter.has_line(check.key)
        {
            let decision = limiter.behind_line(check.key, now, check.cost);
            decisions.push(RuleDecision { rule: check.rule, decision, shadow });
        }
    }
    (!decisions.is_empty()).then(|| Ruled::of(decisions, SmallVec::new()))
}

/// Decides all checks: the enforced ones together, then the shadow ones each by itself.
pub(super) fn rule(snapshot: &Snapshot, checks: &[Check], now: Timestamp, entry: Entry) -> Ruled {
    let mut enforced: SmallVec<[(&Check, &Arc<Inner>); 4]> = SmallVec::new();
    let mut shadow: SmallVec<[(&Check, &Arc<Inner>); 4]> = SmallVec::new();
    for check in checks {
        if let Some(limiter) = limiter(snapshot, check) {
            let list = if snapshot.rules()[check.rule].is_shadow() { &mut shadow } else { &mut enforced };
            list.push((check, limiter));
        }
    }
    // Everybody takes limiters in the same order, so nobody waits in a circle.
    enforced.sort_unstable_by_key(|(_, limiter)| limiter.id());
    let mut together = Together { checks: &enforced, now, entry, said: SmallVec::new() };
    let admitted = together.ask(0, true);
    let mut decisions = SmallVec::new();
    let mut passes = SmallVec::new();
    for ((check, limiter), said) in enforced.iter().zip(together.said.into_iter().rev()) {
        decisions.push(RuleDecision { rule: check.rule, decision: said.decision, shadow: false });
        if let Some((plan, marks)) = said.taken {
            let taking = limiter.taking(plan, marks, said.place, now, check.cost);
            passes.push((check.rule, Pass::new(limiter, check.key, taking, said.decision)));
        }
    }
    if admitted {
        for (check, limiter) in shadow {
            let tried = limiter.take(check.key, now, check.cost, Entry::Enqueue);
            decisions.push(RuleDecision { rule: check.rule, decision: tried.decision, shadow: true });
            if let Some(taking) = tried.taken {
                passes.push((check.rule, Pass::new(limiter, check.key, taking, tried.decision)));
            }
        }
    }
    decisions.sort_unstable_by_key(|said: &RuleDecision| said.rule);
    Ruled::of(decisions, passes)
}

/// Several limiters asked as one: each is held while the next is asked, and all take or none does.
struct Together<'a> {
    checks: &'a [(&'a Check, &'a Arc<Inner>)],
    now: Timestamp,
    entry: Entry,
    /// What each said, the last one first.
    said: SmallVec<[Said; 4]>,
}

struct Said {
    decision: Decision,
    taken: Option<(Arc<Plan>, Marks)>,
    place: Place,
}

impl Together<'_> {
    /// Asks the limiters from this one on; `so_far` is what those before said.
    fn ask(&mut self, from: usize, so_far: bool) -> bool {
        let Some((check, limiter)) = self.checks.get(from) else { return so_far };
        let (now, entry) = (self.now, self.entry);
        let mut all = false;
        let mut said = None;
        let place = limiter.visit(check.key, now, &mut |plan, state| {
            let ruling = plan.check(state, now, check.cost, entry);
            all = self.ask(from + 1, so_far && ruling.admits());
            let marks = all.then(|| plan.commit(state, now, check.cost, limiter.is_reservable()));
            let taken = marks.map(|marks| (Arc::clone(plan), marks));
            said = Some((plan.decision(ruling, state, now), taken));
            all && check.cost > 0
        });
        if let Some((decision, taken)) = said {
            self.said.push(Said { decision, taken, place });
        }
        all
    }
}

/// The worse a verdict, the higher.
fn severity(verdict: Verdict) -> (u8, std::time::Duration) {
    match verdict {
        Verdict::Allowed => (0, std::time::Duration::ZERO),
        Verdict::Wait(pause) => (1, pause),
        Verdict::Denied { retry_after: Some(wait) } => (2, wait),
        Verdict::Denied { retry_after: None } => (3, std::time::Duration::ZERO),
        Verdict::Never => (4, std::time::Duration::ZERO),
    }
}

impl Ruled {
    fn of(decisions: SmallVec<[RuleDecision; 2]>, passes: SmallVec<[(usize, Pass); 2]>) -> Self {
        let enforced = decisions.iter().filter(|said| !said.shadow);
        let worst = enforced.max_by_key(|said| severity(said.decision.verdict));
        let verdict = worst.map_or(Verdict::Allowed, |said| said.decision.verdict);
        let refused_by = worst.filter(|said| !said.decision.is_admitted()).map(|said| said.rule);
        Self { verdict, refused_by, decisions, passes }
    }

    pub(super) fn into_outcome(self, snapshot: Arc<Snapshot>, checks: Checks) -> Outcome {
        let cause = self.refused_by.map_or(Cause::Rules, Cause::Limit);
        let Self { verdict, decisions, passes, .. } = self;
        Outcome { snapshot, verdict, cause, decisions, passes, checks }
    }
}

/// Makes the keys readable that may be banned for a refusal.
fn name_for_bans(snapshot: &Snapshot, checks: &mut Checks, request: &Request<'_>) {
    if !checks.iter().any(|check| snapshot.state(check.rule).bans.is_some()) {
        return;
    }
    snapshot.index().matching(snapshot.rules(), request, |index, params| {
        if let Some(check) = checks.iter_mut().find(|check| check.rule == index) {
            check.name = readable_key(&snapshot.rules()[index].key, request, params);
        }
    });
}

/// Counts what every rule said, and refusals towards bans.
pub(super) fn count(outcome: &Outcome, now: Timestamp) {
    let admitted = outcome.is_admitted();
    for said in &outcome.decisions {
        let state = outcome.snapshot.state(said.rule);
        if !said.decision.is_admitted() {
            state.counters.refused.fetch_add(1, Ordering::Relaxed);
            ban_if_due(outcome, said.rule, now);
        } else if admitted {
            state.counters.admitted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn ban_if_due(outcome: &Outcome, rule: usize, now: Timestamp) {
    let Some(bans) = &outcome.snapshot.state(rule).bans else { return };
    let Some(check) = outcome.checks.iter().find(|check| check.rule == rule) else { return };
    if bans.refused(check.key, now) {
        bans.note(check.name.clone().unwrap_or_default(), check.key, now);
    }
}
