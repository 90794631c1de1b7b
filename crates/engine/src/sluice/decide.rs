//! Deciding one request: select the checks, decide them all or nothing.

use std::num::IntErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;

use super::ban::NamedKey;
use super::fleet::{self, FleetAsking};
use super::gating::Coming;
use super::outcome::{Cause, Outcome};
use super::snapshot::{RuleState, Snapshot};
use crate::algorithm::{self, Entry, Status};
use crate::clock::ClockHandle;
use crate::decision::{Decision, Verdict};
use crate::fleet::{FleetKey, FleetMark};
use crate::limiter::{Inner, NO_STATE};
use crate::plan::{Ruling, Taking};
use crate::rule::key::{hash_key, readable_key};
use crate::rule::{Attribute, Cost, ListHit, Params, Request, Rule};
use crate::table::{KeyHash, KeyHasher};
use crate::time::Timestamp;
use crate::wait::{Watcher, block_on};

/// One rule's question about one request, and its answer.
pub(super) struct Check {
    pub(super) rule: usize,
    pub(super) key: KeyHash,
    pub(super) cost: u64,
    /// Whether the rule only watches.
    pub(super) shadow: bool,
    pub(super) said: Option<Said>,
    /// The key for people and other processes; only made where somebody may have to be told it later.
    pub(super) named: Option<Box<NamedKey>>,
}

/// What a rule said.
pub(super) struct Said {
    pub(super) ruling: Ruling,
    pub(super) status: Status,
    pub(super) taken: Option<Taking>,
    pub(super) source: Source,
}

/// Who a rule's answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// This process, which alone counts the rule.
    Local,
    /// This process, from its slice of what the fleet shares.
    Lease(FleetMark),
    /// The store.
    Store,
    /// This process, from its share while the store is lost.
    Share,
    /// Nobody: it was assumed while the store is lost.
    Assumed,
}

impl Source {
    /// Whether the store should have been asked, and was lost.
    pub(super) const fn is_degraded(self) -> bool {
        matches!(self, Self::Share | Self::Assumed)
    }
}

impl Said {
    /// An answer that was given without asking the limits.
    pub(super) fn from_decision(decision: &Decision) -> Self {
        let ruling = Ruling { check: decision.verdict.into(), limit: decision.limit };
        Self { ruling, status: decision.status, taken: None, source: Source::Local }
    }
}

/// How many rules with limits can match one request. More than that, and it is refused.
const MOST_TOGETHER: usize = 256;

/// The questions about one request, in the order of the rules.
pub(super) type Checks = SmallVec<[Check; 2]>;

/// How a request asks the rules it meets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asking {
    /// For an answer at once; a place in a paced line may be part of it.
    AtOnce,
    /// To wait here where a rule has a queue: then only to be let in if its turn has come.
    ToWait,
}

/// Which rules have a say.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deciding {
    /// Those whose target the request is.
    Matching,
    /// The one at this position, whatever its target and side.
    Only(usize),
}

pub(super) fn decide(
    snapshot: Arc<Snapshot>,
    deciding: Deciding,
    request: &Request<'_>,
    clock: &ClockHandle,
) -> Outcome {
    let mut outcome = Outcome::new(snapshot);
    let now = decide_uncounted(&mut outcome, deciding, request, clock, Asking::AtOnce);
    if fleet::decide_at_once(&mut outcome, now) {
        let questions = fleet::questions(&mut outcome, deciding, request);
        let (mut outcome, now) = block_on(FleetAsking::begin(outcome, questions, Asking::AtOnce, clock));
        if outcome.is_gated() {
            outcome.pass_gates(Coming::AtOnce);
            outcome.count(now, Some((deciding, request)));
        }
        return outcome;
    }
    if outcome.is_gated() {
        outcome.pass_gates(Coming::AtOnce);
    }
    if !outcome.is_admitted() {
        name_for_bans(&mut outcome, deciding, request);
    }
    outcome.count(now, Some((deciding, request)));
    outcome
}

/// Decides without counting what the rules said, for those who may ask again. Fills in the outcome where
/// it stands, as it is large to move about, and answers when that was.
pub(super) fn decide_uncounted(
    outcome: &mut Outcome,
    deciding: Deciding,
    request: &Request<'_>,
    clock: &ClockHandle,
    asking: Asking,
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
    select(&outcome.snapshot, deciding, request, &mut outcome.checks, |_, _| {});
    let now = clock.now();
    if let Some((rule, remaining)) = banned(&outcome.snapshot, &outcome.checks, now) {
        outcome.snapshot.state(rule).counters.banned.fetch_add(1, Ordering::Relaxed);
        outcome.verdict = Verdict::Denied { retry_after: Some(remaining) };
        outcome.cause = Cause::Ban(rule);
        return now;
    }
    if !stand_behind_lines(outcome, now) {
        rule_on(outcome, now, asking);
    }
    outcome.conclude();
    now
}

/// Asks the rules of this process once more.
pub(super) fn rule_again(outcome: &mut Outcome, now: Timestamp) {
    outcome.checks.iter_mut().for_each(|check| check.said = None);
    if !stand_behind_lines(outcome, now) {
        rule_on(outcome, now, Asking::ToWait);
    }
    outcome.conclude();
}

/// Collects the checks of a request. `each` sees every matching rule, also those whose key it lacks.
pub(super) fn select(
    snapshot: &Snapshot,
    deciding: Deciding,
    request: &Request<'_>,
    checks: &mut Checks,
    each: impl FnMut(usize, &Params<'_>),
) {
    each_check(snapshot, deciding, request, each, |rule, key, cost| {
        let shadow = snapshot.rules()[rule].is_shadow();
        checks.push(Check { rule, key, cost, shadow, said: None, named: None });
    });
}

/// Reports the rules that count a request, with its key and cost. `each` sees every matching rule, also
/// those whose key it lacks.
#[inline]
pub(super) fn each_check(
    snapshot: &Snapshot,
    deciding: Deciding,
    request: &Request<'_>,
    mut each: impl FnMut(usize, &Params<'_>),
    mut counts: impl FnMut(usize, KeyHash, u64),
) {
    each_rule(snapshot, deciding, request, |index, params| {
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

/// Reports the rules that have a say, with what their patterns captured.
pub(super) fn each_rule(
    snapshot: &Snapshot,
    deciding: Deciding,
    request: &Request<'_>,
    mut found: impl FnMut(usize, &Params<'_>),
) {
    match deciding {
        Deciding::Matching => snapshot.index().matching(snapshot.rules(), request, found),
        Deciding::Only(rule) => {
            // Its pattern is not looked at, so there are no parameters.
            let params = Params::new();
            if snapshot.rules()[rule].when.as_ref().is_none_or(|when| when.holds(request, &params)) {
                found(rule, &params);
            }
        }
    }
}

/// What a request costs by a rule. One that costs nothing itself only looks, whatever others would have to pay.
#[inline]
fn cost(rule: &Rule, request: &Request<'_>, params: &Params<'_>) -> u64 {
    match &rule.cost {
        _ if request.cost == 0 => 0,
        Cost::Fixed(cost) => cost.saturating_mul(request.cost),
        Cost::Estimate { reserve, .. } => *reserve,
        Cost::Attribute(attribute) => told_cost(attribute, request, params),
    }
}

fn told_cost(attribute: &Attribute, request: &Request<'_>, params: &Params<'_>) -> u64 {
    match request.value(attribute, params).map(|text| text.trim().parse::<u64>()) {
        Some(Ok(number)) => number,
        // Too large to count is not one, but more than any limit.
        Some(Err(error)) if *error.kind() == IntErrorKind::PosOverflow => u64::MAX,
        _ => 1,
    }
}

fn banned(snapshot: &Snapshot, checks: &[Check], now: Timestamp) -> Option<(usize, Duration)> {
    checks.iter().filter(|check| !check.shadow).find_map(|check| {
        let bans = snapshot.state(check.rule).bans.as_ref()?;
        Some((check.rule, bans.remaining(check.key, now)?))
    })
}

/// Refuses if others wait for one of the keys: nobody passes them. Answers whether that was so.
fn stand_behind_lines(outcome: &mut Outcome, now: Timestamp) -> bool {
    let mut waiting = false;
    for check in outcome.checks.iter_mut().filter(|check| !check.shadow && check.cost > 0) {
        if let Some(limiter) = outcome.snapshot.state(check.rule).decider()
            && limiter.has_line(check.key)
        {
            check.said = Some(Said::from_decision(&limiter.behind_line(check.key, now, check.cost)));
            waiting = true;
        }
    }
    waiting
}

/// Decides all checks: the enforced ones together, then the shadow ones each by itself.
pub(super) fn rule_on(outcome: &mut Outcome, now: Timestamp, asking: Asking) {
    let snapshot = &*outcome.snapshot;
    let checks = &mut outcome.checks;
    let mut enforced: SmallVec<[(u64, usize); 8]> = SmallVec::new();
    for (index, check) in checks.iter_mut().enumerate() {
        check.said = None;
        if let Some(limiter) = snapshot.state(check.rule).decider()
            && !check.shadow
        {
            enforced.push((limiter.id(), index));
        }
    }
    if enforced.len() > MOST_TOGETHER {
        // Each is held while the next is asked. Nobody meant so many rules for one request: refuse it
        // rather than run out of stack.
        let said = Said::from_decision(&NO_STATE);
        checks[enforced[MOST_TOGETHER].1].said = Some(said);
        return;
    }
    // Everybody takes limiters in the same order, so nobody waits in a circle.
    enforced.sort_unstable();
    let mut together = Together { snapshot, checks, order: &enforced, now, asking };
    if together.ask(0, true) {
        for check in checks.iter_mut().filter(|check| check.shadow) {
            if let Some(limiter) = snapshot.state(check.rule).decider() {
                let tried = limiter.take(check.key, now, check.cost, Entry::Enqueue);
                let said = Said::from_decision(&tried.decision);
                check.said = Some(Said { taken: tried.taken, ..said });
            }
        }
    }
}

/// Several limiters asked as one: each is held while the next is asked, and all take or none does.
struct Together<'a> {
    snapshot: &'a Snapshot,
    checks: &'a mut Checks,
    /// Which checks, by their limiter.
    order: &'a [(u64, usize)],
    now: Timestamp,
    asking: Asking,
}

impl Together<'_> {
    /// Asks the limiters from this one on; `so_far` is what those before said.
    fn ask(&mut self, from: usize, so_far: bool) -> bool {
        let Some(&(_, index)) = self.order.get(from) else { return so_far };
        let (key, cost) = (self.checks[index].key, self.checks[index].cost);
        let rule_state = self.snapshot.state(self.checks[index].rule);
        let Some(limiter) = rule_state.decider() else { return self.ask(from + 1, so_far) };
        let now = self.now;
        let queues = || self.snapshot.rules()[self.checks[index].rule].on_limit.queue.is_some();
        let entry = if self.asking == Asking::ToWait && queues() { Entry::Depart } else { Entry::Enqueue };
        let mut all = false;
        let place = limiter.visit_known(rule_state.core.as_deref(), key, now, &mut |plan, state| {
            let ruling = plan.check(state, now, cost, entry);
            all = self.ask(from + 1, so_far && ruling.admits());
            let said = self.checks[index].said.insert(Said {
                ruling,
                status: Status::default(),
                taken: None,
                source: Source::Local,
            });
            if all {
                plan.take(state, now, cost, limiter.is_reservable(), &mut said.taken);
            }
            said.status = plan.report(&mut said.ruling, state, now);
            all && cost > 0
        });
        if let Some(Said { taken: Some(taking), .. }) = &mut self.checks[index].said {
            taking.place = place;
            limiter.note_taken(taking);
        }
        all
    }
}

impl Outcome {
    /// Draws the verdict from what the rules said.
    pub(super) fn conclude(&mut self) {
        let mut worst = algorithm::Check::Now;
        self.cause = Cause::Rules;
        for check in self.checks.iter().filter(|check| !check.shadow) {
            if let Some(said) = &check.said
                && said.ruling.check.severity() > worst.severity()
            {
                worst = said.ruling.check;
                if !said.ruling.admits() {
                    self.cause = Cause::Limit(check.rule);
                }
            }
        }
        self.verdict = worst.verdict();
    }

    /// The rules that refuse.
    pub(super) fn refusing(&self) -> impl Iterator<Item = &Rule> {
        let refusing = self.checks.iter().filter(|check| !check.shadow && check.refuses());
        refusing.map(|check| &self.snapshot.rules()[check.rule])
    }

    /// Whether every rule that refuses lets the request wait.
    pub(super) fn may_wait(&self) -> bool {
        !self.is_admitted() && self.refusing().all(|rule| rule.on_limit.queue.is_some())
    }

    /// Asks to be woken when something is given back that other limiters than this one wait for. Answers
    /// whether there is any.
    pub(super) fn watch_other_holders(&self, own: &Arc<Inner>, waker: &Waker, watched: &mut Watched) -> bool {
        let mut watching = false;
        for check in self.checks.iter().filter(|check| !check.shadow && check.is_held_up()) {
            if let Some(limiter) = &self.snapshot.state(check.rule).limiter
                && !Arc::ptr_eq(limiter, own)
                && limiter.room.watch(check.key, watched.watcher, waker)
            {
                watched.note(limiter, check.key);
                watching = true;
            }
        }
        watching
    }

    /// Counts what every rule said, and refusals towards bans. Who was refused because the store is lost has
    /// not run into the rule's limits. Keys are named by the request, or, if that is gone, must have been.
    pub(super) fn count(&mut self, now: Timestamp, request: Option<(Deciding, &Request<'_>)>) {
        let admitted = self.is_admitted();
        for check in &mut self.checks {
            let state = self.snapshot.state(check.rule);
            if let Some(watch) = &state.watch {
                let refused = check.refuses() || self.cause == Cause::Ban(check.rule);
                watch.note(check.key, refused, now, || match (&check.named, request) {
                    (Some(named), _) => Some(named.name.clone()),
                    (None, Some((deciding, request))) => name_of(&self.snapshot, deciding, check.rule, request),
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
                    // It is not the client who has had too much.
                    && self.cause != Cause::Strain(check.rule)
                    && bans.refused(check.key, now)
                    && let Some(named) = check.named.take()
                {
                    bans.note(&self.snapshot.rules()[check.rule].name, *named, check.key, now);
                }
            } else if admitted && (check.said.is_some() || state.gate.is_some()) {
                state.counters.admitted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// What a request has asked to be woken for, besides its own line.
pub(super) struct Watched {
    watcher: Watcher,
    places: Vec<(Arc<Inner>, KeyHash)>,
}

impl Watched {
    pub(super) fn new() -> Self {
        Self { watcher: Watcher::new(), places: Vec::new() }
    }

    fn note(&mut self, limiter: &Arc<Inner>, key: KeyHash) {
        if !self.places.iter().any(|(known, of)| Arc::ptr_eq(known, limiter) && *of == key) {
            self.places.push((Arc::clone(limiter), key));
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        for (limiter, key) in self.places.drain(..) {
            limiter.room.unwatch(key, self.watcher);
        }
    }
}

impl Check {
    /// Whether it is refused until somebody gives back what they hold.
    fn is_held_up(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said.ruling.check == algorithm::Check::Held)
    }

    /// Whether it was decided without the store that counts it.
    pub(super) fn is_degraded(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said.source.is_degraded())
    }

    pub(super) fn refuses(&self) -> bool {
        self.said.as_ref().is_some_and(|said| !said.ruling.admits())
    }
}

/// Makes the keys readable that may be banned for a refusal.
pub(super) fn name_for_bans(outcome: &mut Outcome, deciding: Deciding, request: &Request<'_>) {
    name_keys(outcome, deciding, request, |state| state.bans.is_some());
}

/// Makes the keys readable that somebody may have to be told when the request is gone.
pub(super) fn name_for_later(outcome: &mut Outcome, deciding: Deciding, request: &Request<'_>) {
    name_keys(outcome, deciding, request, |state| state.bans.is_some() || state.watch.is_some());
}

fn name_keys(outcome: &mut Outcome, deciding: Deciding, request: &Request<'_>, wanted: fn(&RuleState) -> bool) {
    let Outcome { snapshot, checks, .. } = outcome;
    if !checks.iter().any(|check| check.named.is_none() && wanted(snapshot.state(check.rule))) {
        return;
    }
    each_rule(snapshot, deciding, request, |index, params| {
        if let Some(check) = checks.iter_mut().find(|check| check.rule == index) {
            let parts = &snapshot.rules()[index].key;
            let named = readable_key(parts, request, params).zip(FleetKey::of(parts, request, params));
            check.named = named.map(|(name, key)| Box::new(NamedKey { name, key }));
        }
    });
}

/// A request's key of one of its rules, readable.
#[cold]
pub(super) fn name_of(snapshot: &Snapshot, deciding: Deciding, rule: usize, request: &Request<'_>) -> Option<String> {
    let mut name = None;
    each_rule(snapshot, deciding, request, |index, params| {
        if index == rule {
            name = readable_key(&snapshot.rules()[index].key, request, params);
        }
    });
    name
}
