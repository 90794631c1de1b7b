//! Rule engine: a [`Sluice`] holds rules with their state and decides requests.
//!
//! The rules are an immutable snapshot that is replaced as a whole. Replacing it keeps the state of every rule
//! that stays: a rule is the same if it has the same name and key, and a changed limit takes over the remaining
//! quota of the old one ([`crate::Limiter::change`]).
//!
//! A request passes these steps in order:
//! 1. **Lists.** A request on the allow list is admitted and counted nowhere. One on the deny list is refused.
//! 2. **Match.** The index finds the rules for the request and the key of each. A rule does not apply to a
//!    request that lacks its key.
//! 3. **Bans.** A banned key is refused.
//! 4. **Decide.** All limits of all matching rules are decided together, all or nothing.
//! 5. **Shadow.** Rules in shadow mode count admitted requests and report those that they would have refused.
//! 6. **Gates.** Overload protection rules admit as many requests as the process can handle and refuse the
//!    others ([`crate::overload`]).
//! 7. **Bandwidth.** Rules that limit only bandwidth pace the bytes of admitted requests ([`Outcome::meters`]).
//!
//! ```
//! use sluicegate_engine::{Sluice, rule::{Attribute, Request, Rule}};
//! use std::net::Ipv4Addr;
//!
//! let mut per_ip = Rule::new("per-ip", ["2/1m".parse()?]);
//! per_ip.key = vec![Attribute::ClientIp.into()];
//! let sluice = Sluice::builder().rule(per_ip).build()?;
//!
//! let request = Request::new("GET", "/").with_client_ip(Ipv4Addr::LOCALHOST);
//! assert!(sluice.decide(&request).is_admitted());
//! assert!(sluice.decide(&request).is_admitted());
//! let refused = sluice.decide(&request);
//! assert!(!refused.is_admitted());
//! assert_eq!(refused.rule().map(|rule| rule.name.as_str()), Some("per-ip"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod account;
mod admission;
mod ban;
mod bandwidth;
mod builder;
mod check;
mod cluster;
mod counts;
mod evaluate;
mod explain;
mod extensions;
mod fast_path;
mod keys;
mod named_rule;
mod outcome;
mod overload;
mod pipeline;
mod queue;
mod saved;
mod select;
mod snapshot;
mod top;

use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

pub use admission::Admission;
pub use ban::{ActiveBan, BanEvent};
pub use bandwidth::{ByteTicket, Meters};
pub use builder::{RuleSetError, SluiceBuilder};
pub use counts::{ListCounts, RuleCounts, WAIT_BOUNDS, WaitTimes};
pub use explain::{Explanation, GateExplanation, RuleExplanation};
pub use fast_path::{FastDecision, FastPath};
pub use keys::{KeyError, KeyState, LimitState};
pub use named_rule::NamedRule;
pub use outcome::{Cause, Outcome, RuleDecision};
pub use saved::SavedRules;
pub use snapshot::{KeyCapacity, key_capacities};
pub use top::{TopKey, TopKeys, TopList};

use crate::clock::ClockHandle;
use crate::limit::LimitError;
use crate::overload::Gate;
use crate::rule::{Expr, Lists, Request, Rule};
use crate::store::Store;
use pipeline::DecisionMode;
use select::Selection;
use snapshot::{BuildContext, Snapshot};

/// Rule engine: the active rules with their state. Clones share the same state.
#[derive(Clone)]
pub struct Sluice {
    shared: Arc<SluiceState>,
}

struct SluiceState {
    snapshot: ArcSwap<Snapshot>,
    clock: ClockHandle,
    /// Memory budget in bytes for the keys of all rules.
    memory: usize,
    /// Store that counts cluster-wide rules.
    store: Option<Arc<dyn Store>>,
    /// Active lists. The lock is held while rules or lists are replaced.
    lists: Mutex<ListSources>,
    unrestored_rules: Vec<String>,
    /// Replaced snapshots that requests may still reference. They are dropped outside of the request path.
    retired: Mutex<Vec<Arc<Snapshot>>>,
    /// Number of threads that decide concurrently; set if the heaviest keys are tracked.
    tracker_threads: Option<usize>,
}

/// Sources of the active lists.
#[derive(Default)]
struct ListSources {
    /// Given with the rules.
    local: Lists,
    /// Set separately, for example shared by a cluster.
    shared: Lists,
}

impl ListSources {
    fn merged(&self) -> Lists {
        let Self { local, shared } = self;
        let both = |local: &[Expr], shared: &[Expr]| local.iter().chain(shared).cloned().collect();
        Lists { allow: both(&local.allow, &shared.allow), deny: both(&local.deny, &shared.deny) }
    }
}

impl Sluice {
    /// Builder for rules, lists, memory and clock.
    pub fn builder() -> SluiceBuilder {
        SluiceBuilder::default()
    }

    /// Decides a request and consumes its cost. Blocks the thread while a cluster-wide rule awaits the store. It
    /// neither queues the request nor awaits a delay; the verdict reports both.
    #[inline]
    pub fn decide(&self, request: &Request<'_>) -> Outcome {
        let snapshot = self.shared.snapshot.load_full();
        Admission::decide_blocking(snapshot, Selection::Matching, request, self.clock(), DecisionMode::Immediate)
    }

    /// [`Sluice::decide`] without blocking the thread, for servers that decide on behalf of other processes: they do
    /// not learn when the request ends, so it holds no permit of an overload gate.
    #[inline]
    pub fn decide_async(&self, request: &Request<'_>) -> Admission {
        self.start(self.shared.snapshot.load_full(), Selection::Matching, request, DecisionMode::Remote)
    }

    /// Decides a request and queues it if its rule allows waiting. The delay that a leaky bucket imposes is awaited
    /// too: an admitted request may proceed immediately.
    #[inline]
    pub fn admit(&self, request: &Request<'_>) -> Admission {
        self.start(self.shared.snapshot.load_full(), Selection::Matching, request, DecisionMode::Wait)
    }

    /// The rule of this name, to decide requests by it alone. `None` if there is no such rule.
    pub fn rule(&self, name: &str) -> Option<NamedRule<'_>> {
        NamedRule::find(self, name)
    }

    #[inline]
    fn start(
        &self,
        snapshot: Arc<Snapshot>,
        selection: Selection,
        request: &Request<'_>,
        mode: DecisionMode,
    ) -> Admission {
        Admission::new(snapshot, selection, request, &self.shared.clock, mode)
    }

    /// Names of rules with saved state that no longer fits them. Their state was not restored; they start fresh.
    pub fn unrestored_rules(&self) -> &[String] {
        &self.shared.unrestored_rules
    }

    /// Clock of this sluice.
    pub fn clock(&self) -> &ClockHandle {
        &self.shared.clock
    }

    /// Fast path: decides requests that match at most one rule without building an [`Outcome`]. The rule has a key
    /// and consists of token buckets, windows or sliding logs that are counted locally. The fast path applies while
    /// no request is queued and, to a request over the limit, only if the rule has no queue. Every other request has
    /// to take [`Sluice::admit`] or another method that returns an [`Outcome`].
    ///
    /// For adapters that do not need the outcome of such a request. Do not keep the returned value longer than the
    /// decision of one request takes: it keeps replaced rules from being freed.
    ///
    /// ```
    /// use sluicegate_engine::{Limit, Rate, Sluice, rule::{Attribute, Request, Rule}};
    /// use std::net::Ipv4Addr;
    ///
    /// let mut per_ip = Rule::new("per-ip", [Limit::token_bucket(Rate::per_minute(1)?, 2)?]);
    /// per_ip.key = vec![Attribute::ClientIp.into()];
    /// let sluice = Sluice::builder().rule(per_ip).build()?;
    ///
    /// let request = Request::new("GET", "/").with_client_ip(Ipv4Addr::LOCALHOST);
    /// let admitted = || sluice.fast_path().try_decide(&request).map(|decision| decision.is_admitted());
    /// assert_eq!([admitted(), admitted(), admitted()], [Some(true), Some(true), Some(false)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fast_path(&self) -> FastPath<'_> {
        FastPath::new(self.shared.snapshot.load(), &self.shared.clock)
    }

    /// Explains which rules match a request, by which key, and their decisions. Consumes nothing.
    pub fn explain(&self, request: &Request<'_>) -> Explanation {
        explain::explain(&self.shared.snapshot.load(), request, self.shared.clock.now())
    }

    /// Replaces the active rules. On an error the current rules stay active.
    pub fn replace(&self, rules: Vec<Rule>, lists: Lists) -> Result<(), RuleSetError> {
        let mut current = self.shared.lists.lock();
        let changed = ListSources { local: lists, shared: current.shared.clone() };
        self.apply(rules, &changed)?;
        *current = changed;
        Ok(())
    }

    fn apply(&self, rules: Vec<Rule>, lists: &ListSources) -> Result<(), RuleSetError> {
        let old = self.shared.snapshot.load_full();
        let SluiceState { clock, memory, store, tracker_threads, .. } = &*self.shared;
        let context = BuildContext {
            clock,
            memory: *memory,
            seed: old.seed(),
            store: store.as_ref(),
            tracker_threads: *tracker_threads,
        };
        let new = Snapshot::build(rules, lists.merged(), &context, Some(&old))?;
        let new = Arc::new(new);
        self.shared.snapshot.store(Arc::clone(&new));
        old.lift_removed_pacers(&new);
        self.shared.retired.lock().push(old);
        self.reclaim();
        Ok(())
    }

    /// Frees replaced rules that no request references any more. They may be large, so they are freed here and at
    /// every replacement, never at the end of a request. Call it periodically, for example every second.
    pub fn reclaim(&self) {
        // A retired snapshot gets no new references, so a count of one cannot rise again.
        let is_unused = |snapshot: &mut Arc<Snapshot>| Arc::strong_count(snapshot) == 1;
        let unused: Vec<_> = self.shared.retired.lock().extract_if(.., is_unused).collect();
        drop(unused);
    }

    /// Generation of the active rule set. Generations are unique in this process and increase.
    pub fn generation(&self) -> u64 {
        self.shared.snapshot.load().generation()
    }

    /// Active lists: those given with the rules, and the [shared ones](Self::set_shared_lists).
    pub fn lists(&self) -> (Lists, Lists) {
        let lists = self.shared.lists.lock();
        (lists.local.clone(), lists.shared.clone())
    }

    /// Number of requests that the lists decided.
    pub fn list_counts(&self) -> ListCounts {
        self.shared.snapshot.load().list_counters().counts()
    }

    /// Keys of a rule with the most requests and the most refusals in the last one to two minutes. `None` if there
    /// is no such rule, if it has no key, or if keys are not [tracked](SluiceBuilder::track_keys).
    pub fn top_keys(&self, rule: &str) -> Option<TopKeys> {
        let snapshot = self.shared.snapshot.load();
        let tracker = snapshot.state(snapshot.position(rule)?).tracker.as_ref()?;
        Some(tracker.top(self.shared.clock.now()))
    }

    /// Active rules.
    pub fn rules(&self) -> Vec<Rule> {
        self.shared.snapshot.load().rules().to_vec()
    }

    /// Counters of each rule, in rule order.
    pub fn counts(&self) -> Vec<RuleCounts> {
        self.shared.snapshot.load().counts(self.shared.clock.now())
    }

    /// Active bans that were imposed recently, by rule.
    pub fn bans(&self) -> Vec<ActiveBan> {
        self.shared.snapshot.load().bans(self.shared.clock.now())
    }

    /// Lifts a ban by its rule and the key as [`Sluice::bans`] shows it. Returns true if there was one.
    pub fn lift_ban(&self, rule: &str, key: &str) -> bool {
        self.shared.snapshot.load().lift_ban(rule, key)
    }

    /// Drains the bans by cluster-wide rules that were imposed or lifted here since the last call. Other processes
    /// [apply](Sluice::apply_ban_event) them.
    pub fn drain_ban_events(&self) -> Vec<BanEvent> {
        self.shared.snapshot.load().ban_events(false, self.shared.clock.now())
    }

    /// Active bans by cluster-wide rules, for a store that has lost them.
    pub fn active_bans(&self) -> Vec<BanEvent> {
        self.shared.snapshot.load().ban_events(true, self.shared.clock.now())
    }

    /// Applies a ban that another process imposed or lifted. Returns true if there is a rule of that name with a
    /// ban.
    pub fn apply_ban_event(&self, event: &BanEvent) -> bool {
        self.shared.snapshot.load().apply_ban_event(event, self.shared.clock.now())
    }

    /// Sets lists in addition to those given with the rules, such as those shared by a cluster. They are checked
    /// after the rules' own lists and stay when rules are replaced.
    pub fn set_shared_lists(&self, shared: Lists) -> Result<(), RuleSetError> {
        let mut lists = self.shared.lists.lock();
        if lists.shared == shared {
            return Ok(());
        }
        let rules = self.rules();
        let changed = ListSources { local: lists.local.clone(), shared };
        self.apply(rules, &changed)?;
        *lists = changed;
        Ok(())
    }

    /// Store that counts the cluster-wide rules, if there is one.
    pub fn store(&self) -> Option<Arc<dyn Store>> {
        self.shared.store.clone()
    }

    /// Weak reference to this sluice.
    pub fn downgrade(&self) -> WeakSluice {
        WeakSluice(Arc::downgrade(&self.shared))
    }

    /// Overload protection rules with their gates.
    pub fn gates(&self) -> Vec<(Rule, Gate)> {
        self.shared.snapshot.load().gates().map(|(rule, gate)| (rule.clone(), gate.clone())).collect()
    }

    /// Memory allocated for the keys of all rules, used or not.
    pub fn bytes(&self) -> usize {
        self.shared.snapshot.load().bytes()
    }
}

/// Weak reference to a [`Sluice`].
#[derive(Clone)]
pub struct WeakSluice(Weak<SluiceState>);

impl WeakSluice {
    /// Returns the sluice if it is still alive.
    pub fn upgrade(&self) -> Option<Sluice> {
        self.0.upgrade().map(|shared| Sluice { shared })
    }

    /// True if the sluice is still alive.
    pub fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

impl std::fmt::Debug for WeakSluice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakSluice").field("is_alive", &self.is_alive()).finish()
    }
}

impl std::fmt::Debug for Sluice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let snapshot = self.shared.snapshot.load();
        let names: Vec<&str> = snapshot.rules().iter().map(|rule| rule.name.as_str()).collect();
        f.debug_struct("Sluice").field("rules", &names).finish_non_exhaustive()
    }
}

/// Converts a limit error to a rule set error with the rule's name.
fn in_rule(rule: &Rule) -> impl FnOnce(LimitError) -> RuleSetError + '_ {
    |source| RuleSetError::Limit { rule: rule.name.clone(), source }
}
