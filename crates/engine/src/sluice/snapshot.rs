//! Snapshot: an immutable, compiled rule set with its state.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rapidhash::RapidHashMap;

use super::ban::{ActiveBan, BanEvent, BanTable};
use super::bandwidth::Pacer;
use super::cluster::ClusterRuleState;
use super::counts::{ListCounters, RuleCounters, RuleCounts};
use super::extensions::RuleSetExtension;
use super::top::{KeyTracker, TrackerSize};
use super::{RuleSetError, in_rule};
use crate::clock::ClockHandle;
use crate::limit::{Limit, LimitError};
use crate::limiter::{Builder, KeyedCore, LimiterCore};
use crate::overload::Gate;
use crate::rule::key::{hash_address, hash_encoded};
use crate::rule::{Attribute, Cost, Direction, ListIndex, Lists, Rule, RuleIndex};
use crate::store::{Store, StoreLimits};
use crate::table::{KeyHasher, Table};
use crate::time::Timestamp;
use crate::wait::QueueCapacity;

/// Maximum number of keys of a rule without an explicit number.
const DEFAULT_KEYS: usize = 1 << 18;

/// Immutable rule set. Its state is shared with the snapshot it replaced.
pub(super) struct Snapshot {
    rules: Vec<Rule>,
    /// Position of each rule, by name.
    positions: RapidHashMap<Box<str>, usize>,
    index: RuleIndex,
    lists: ListIndex,
    list_counters: Arc<ListCounters>,
    states: Vec<RuleState>,
    seed: u64,
    generation: u64,
    /// Store that counts cluster-wide rules.
    store: Option<Arc<dyn Store>>,
    /// Set if a rule is counted in the store.
    clustered: bool,
    /// Set if a rule paces bytes.
    metering: bool,
    /// Set if a rule has an overload gate.
    gated: bool,
    /// Rule to prefetch for a client address, if there is one.
    client_rule: Option<usize>,
    /// Extension that an adapter caches for these rules.
    extension: RuleSetExtension,
}

/// Generation of the next rule set in this process.
static NEXT_GENERATION: AtomicU64 = AtomicU64::new(1);

/// Context for building rule states.
pub(super) struct BuildContext<'a> {
    pub(super) clock: &'a ClockHandle,
    /// Memory budget in bytes for the keys of all rules.
    pub(super) memory: usize,
    /// Hash seed of all keys.
    pub(super) seed: u64,
    /// Store that counts cluster-wide rules; `None`: they are counted locally.
    pub(super) store: Option<&'a Arc<dyn Store>>,
    /// Number of threads that decide concurrently; set if the heaviest keys are to be tracked.
    pub(super) tracker_threads: Option<usize>,
}

/// State of a rule.
#[derive(Clone)]
pub(super) struct RuleState {
    /// `None` for rules without limits of their own and for rules counted in a store.
    pub(super) limiter: Option<Arc<LimiterCore>>,
    /// Table of the limiter, cached to avoid an indirection per decision.
    pub(super) core: Option<Arc<KeyedCore>>,
    /// Set if one lookup in that table decides the rule.
    plain: bool,
    /// Pacer of a rule that limits bandwidth; uses the limiter. It does not decide requests.
    pub(super) pacer: Option<Arc<Pacer>>,
    /// State of a rule counted in a store.
    pub(super) cluster: Option<Arc<ClusterRuleState>>,
    pub(super) bans: Option<Arc<BanTable>>,
    pub(super) counters: Arc<RuleCounters>,
    /// Overload gate.
    pub(super) gate: Option<Gate>,
    /// Tracker of the heaviest keys, if enabled.
    pub(super) tracker: Option<Arc<KeyTracker>>,
}

impl Snapshot {
    pub(super) fn build(
        rules: Vec<Rule>,
        lists: Lists,
        context: &BuildContext<'_>,
        old: Option<&Self>,
    ) -> Result<Self, RuleSetError> {
        // Everything that can fail comes before anything changes.
        let mut positions = RapidHashMap::default();
        for (position, rule) in rules.iter().enumerate() {
            if positions.insert(rule.name.as_str().into(), position).is_some() {
                return Err(RuleSetError::DuplicateName { name: rule.name.clone() });
            }
            if !rule.limits.is_empty() {
                Builder::build_limit_set(rule.limits.clone(), false).map_err(in_rule(rule))?;
            }
            rule.target.validate().map_err(|source| RuleSetError::Target { rule: rule.name.clone(), source })?;
            BanTable::check(rule)?;
        }
        let memory_share = memory_share(&rules, context.memory);
        let keyed = rules.iter().filter(|rule| !rule.key.is_empty()).count();
        let tracker_size = context.tracker_threads.map(|threads| TrackerSize::for_rules(keyed, threads));
        rules.iter().filter(|rule| !rule.key.is_empty()).try_for_each(|rule| check_memory(rule, memory_share))?;
        let opened = rules.iter().map(|rule| ClusterRuleState::open(rule, context)).collect::<Result<Vec<_>, _>>()?;
        let states = rules.iter().zip(opened).map(|(rule, opened)| {
            let old = old.and_then(|old| old.position(&rule.name).map(|at| (&old.rules[at], &old.states[at])));
            let mut state = RuleState::adopt(rule, context, memory_share, old, opened)?;
            state.tracker =
                tracker_size.filter(|_| !rule.key.is_empty()).map(|detail| state.adopt_tracker(detail, context.clock));
            Ok(state)
        });
        let states = states.collect::<Result<Vec<_>, _>>()?;
        let index = RuleIndex::build(&rules);
        let lists = ListIndex::build(&lists);
        let list_counters = old.map(|old| Arc::clone(&old.list_counters)).unwrap_or_default();
        let generation = NEXT_GENERATION.fetch_add(1, Ordering::Relaxed);
        let clustered = states.iter().any(|state: &RuleState| state.cluster.is_some());
        let metering = states.iter().any(|state: &RuleState| state.pacer.is_some());
        let gated = states.iter().any(|state: &RuleState| state.gate.is_some());
        let store = context.store.cloned();
        let extension = old.map(|old| old.extension.for_next(&rules)).unwrap_or_default();
        let client_rule = rules.iter().position(|rule| rule.direction == Direction::Inbound && is_by_client(rule));
        Ok(Self {
            rules,
            positions,
            index,
            lists,
            list_counters,
            states,
            seed: context.seed,
            generation,
            store,
            clustered,
            metering,
            gated,
            client_rule,
            extension,
        })
    }

    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Prefetches the state of a client from memory, if a rule counts by client address.
    #[inline]
    pub(super) fn prefetch_client(&self, client: IpAddr) {
        if let Some(rule) = self.client_rule
            && let [part] = &*self.rules[rule].key
            && let Some(core) = &self.states[rule].core
        {
            let mut hasher = KeyHasher::new(self.seed);
            hash_address(part, client.to_canonical(), &mut hasher);
            core.prefetch(hasher.key());
        }
    }

    /// Extension of these rules; `None` if it has another type.
    #[inline]
    pub(super) fn extension<T: Any + Send + Sync>(&self, prepare: fn(&[Rule]) -> T) -> Option<&T> {
        self.extension.get(&self.rules, prepare)
    }

    /// Position of the rule of this name.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// True if any rule is counted in the store.
    pub(super) const fn is_clustered(&self) -> bool {
        self.clustered
    }

    /// True if any rule paces bytes.
    pub(super) const fn is_metering(&self) -> bool {
        self.metering
    }

    /// True if any rule has a gate.
    #[inline]
    pub(super) const fn is_gated(&self) -> bool {
        self.gated
    }

    /// Rules with an overload gate.
    pub(super) fn gates(&self) -> impl Iterator<Item = (&Rule, &Gate)> {
        self.rules.iter().zip(&self.states).filter_map(|(rule, state)| Some((rule, state.gate.as_ref()?)))
    }

    /// Releases bodies queued for rules that no longer pace bytes in the `next` snapshot.
    pub(super) fn lift_removed_pacers(&self, next: &Self) {
        for (rule, state) in self.rules.iter().zip(&self.states) {
            let Some(pacer) = &state.pacer else { continue };
            let still_paces = |at: usize| next.states[at].pacer.is_some() && !next.rules[at].is_shadow();
            pacer.lift(!next.position(&rule.name).is_some_and(still_paces));
        }
    }

    pub(super) fn store(&self) -> Option<&dyn Store> {
        self.store.as_deref()
    }

    /// Number of processes that share the store's counts.
    pub(super) fn nodes(&self) -> u32 {
        self.store.as_ref().map_or(1, |store| store.nodes().max(1))
    }

    pub(super) const fn index(&self) -> &RuleIndex {
        &self.index
    }

    pub(super) const fn lists(&self) -> &ListIndex {
        &self.lists
    }

    pub(super) const fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn state(&self, rule: usize) -> &RuleState {
        &self.states[rule]
    }

    pub(super) fn states_mut(&mut self) -> impl Iterator<Item = (&Rule, &mut RuleState)> {
        self.rules.iter().zip(&mut self.states)
    }

    pub(super) fn counts(&self, now: Timestamp) -> Vec<RuleCounts> {
        let states = self.rules.iter().zip(&self.states);
        states.map(|(rule, state)| state.counts(rule, now)).collect()
    }

    /// Counters of the lists.
    pub(super) fn list_counters(&self) -> &ListCounters {
        &self.list_counters
    }

    pub(super) fn bans(&self, now: Timestamp) -> Vec<ActiveBan> {
        let bans = self.rules.iter().zip(&self.states);
        bans.flat_map(|(rule, state)| state.bans.iter().flat_map(|table| table.list(&rule.name, now))).collect()
    }

    /// Ban events for the cluster: new ones, or all active bans.
    pub(super) fn ban_events(&self, all: bool, now: Timestamp) -> Vec<BanEvent> {
        let tables = self.rules.iter().zip(&self.states).filter_map(|(rule, state)| Some((rule, state.bans.as_ref()?)));
        let events = |(rule, table): (&Rule, &Arc<BanTable>)| match all {
            true => table.active_events(&rule.name, now),
            false => table.drain_events(),
        };
        tables.flat_map(events).collect()
    }

    /// Applies a ban event of another process. Returns true if there is such a rule.
    pub(super) fn apply_ban_event(&self, event: &BanEvent, now: Timestamp) -> bool {
        let Some(table) = self.position(&event.rule).and_then(|index| self.states[index].bans.as_ref()) else {
            return false;
        };
        let mut hasher = KeyHasher::new(self.seed);
        let written = hash_encoded(event.key.as_bytes(), &mut hasher);
        if written {
            table.apply_event(event, hasher.key(), now);
        }
        written
    }

    pub(super) fn lift_ban(&self, rule: &str, key: &str) -> bool {
        let Some(index) = self.position(rule) else { return false };
        self.states[index].bans.as_ref().is_some_and(|table| table.lift(rule, key))
    }

    pub(super) fn bytes(&self) -> usize {
        let shares = self.states.iter().filter_map(|state| state.cluster.as_ref()?.share_limiter());
        let limiters = self.states.iter().filter_map(|state| state.limiter.clone()).chain(shares);
        let tables = self.states.iter().filter_map(|state| state.bans.as_ref());
        limiters.map(|limiter| limiter.bytes()).sum::<usize>() + tables.map(|table| table.bytes()).sum::<usize>()
    }
}

impl RuleState {
    /// State of a rule: adopted from the rule it replaces if both count the same thing, else new.
    fn adopt(
        rule: &Rule,
        context: &BuildContext<'_>,
        memory_share: usize,
        old: Option<(&Rule, &Self)>,
        opened: Option<Arc<dyn StoreLimits>>,
    ) -> Result<Self, RuleSetError> {
        // Bytes and requests are different units: neither takes over the state of the other.
        let is_compatible = |old: &Rule| old.key == rule.key && old.is_metering() == rule.is_metering();
        let old = old.filter(|(old, _)| is_compatible(old));
        let cluster = ClusterRuleState::adopt(rule, context, memory_share, old, opened)?;
        let limiter = match (old, rule.limits.is_empty() || cluster.is_some()) {
            (_, true) => None,
            (Some((old_rule, Self { limiter: Some(limiter), .. })), false) => {
                update_limiter(limiter, old_rule, rule, memory_share)?;
                Some(Arc::clone(limiter))
            }
            _ => Some(Self::limiter(rule, context, memory_share)?),
        };
        let bans = match (rule.ban, old) {
            (None, _) => None,
            (Some(ban), Some((old_rule, Self { bans: Some(bans), cluster: old_cluster, .. })))
                if old_rule.ban == Some(ban) && old_cluster.is_some() == cluster.is_some() =>
            {
                bans.resize(buckets(rule, memory_share)?);
                Some(Arc::clone(bans))
            }
            (Some(ban), _) => {
                let builder = Builder::default().clock(context.clock.clone()).seed(context.seed);
                let table = BanTable::new(rule, ban, builder, buckets(rule, memory_share)?)?;
                Some(Arc::new(if cluster.is_some() { table.with_events() } else { table }))
            }
        };
        let counters = old.map_or_else(Arc::default, |(_, state)| Arc::clone(&state.counters));
        let tracker = old.and_then(|(_, state)| state.tracker.clone());
        let gate = rule.adaptive.as_ref().map(|_| {
            let old = old.and_then(|(_, state)| state.gate.clone());
            old.unwrap_or_else(|| Gate::new(context.clock.clone()))
        });
        let state = Self { limiter, core: None, plain: false, pacer: None, cluster, bans, counters, gate, tracker };
        Ok(state.link_limiter(rule, old.and_then(|(_, old)| old.pacer.as_ref())))
    }

    /// Key tracker: that of the replaced rule, else a new one.
    fn adopt_tracker(&self, tracker_size: TrackerSize, clock: &ClockHandle) -> Arc<KeyTracker> {
        match &self.tracker {
            Some(tracker) => {
                tracker.resize(tracker_size);
                Arc::clone(tracker)
            }
            None => Arc::new(KeyTracker::new(tracker_size, clock.now())),
        }
    }

    /// Links everything that depends on the limiter: table, pacer and fast path flag.
    pub(super) fn link_limiter(mut self, rule: &Rule, old: Option<&Arc<Pacer>>) -> Self {
        self.core = self.limiter.as_ref().and_then(|limiter| limiter.keyed_core());
        let metering = self.limiter.as_ref().filter(|_| rule.is_metering());
        self.pacer = metering.map(|limiter| Pacer::adopt(rule, limiter, &self.counters, old));
        let has_more = rule.is_shadow()
            || self.gate.is_some()
            || self.pacer.is_some()
            || self.cluster.is_some()
            || self.bans.is_some();
        self.plain = !has_more && !estimates(rule) && self.core.as_ref().is_some_and(|core| core.limit_set.is_plain());
        self
    }

    /// True if the rule enforces limits per key that are counted locally and hold and delay nothing, and does
    /// nothing else. The [fast path](super::fast_path) decides such rules.
    #[inline]
    pub(super) const fn is_plain(&self) -> bool {
        self.plain
    }

    /// Limiter that decides requests.
    #[inline]
    pub(super) const fn decider(&self) -> Option<&Arc<LimiterCore>> {
        if self.pacer.is_some() { None } else { self.limiter.as_ref() }
    }

    /// Counters and current state of the rule.
    fn counts(&self, rule: &Rule, now: Timestamp) -> RuleCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let waits = self.counters.waits.times();
        RuleCounts {
            rule: rule.name.clone(),
            admitted: count(&self.counters.admitted),
            refused: count(&self.counters.refused),
            banned: count(&self.counters.banned),
            degraded: count(&self.counters.degraded),
            bytes: count(&self.counters.bytes),
            early_evictions: self.limiter.as_ref().map_or(0, |limiter| limiter.early_evictions()),
            waiting: self.waiting(),
            waited: waits.count(),
            waits,
            permits: rule.limits.iter().any(Limit::is_concurrency).then(|| self.permits()),
            used: self.limiter.as_ref().filter(|_| rule.key.is_empty()).map(|limiter| limiter.utilization(now)),
        }
    }

    /// Number of permits held.
    fn permits(&self) -> u64 {
        let here = self.limiter.as_ref().map_or(0, |limiter| limiter.permits());
        here + self.cluster.as_ref().map_or(0, |cluster| cluster.permits())
    }

    /// Number of waiting requests.
    fn waiting(&self) -> usize {
        let here = self.limiter.as_ref().map_or(0, |limiter| limiter.queue.waiting());
        let at_gate = self.gate.as_ref().map_or(0, |gate| gate.waiting());
        here + at_gate + self.cluster.as_ref().map_or(0, |cluster| cluster.waiting())
    }

    /// Creates a limiter with the rule's limits.
    pub(super) fn limiter(
        rule: &Rule,
        context: &BuildContext<'_>,
        memory_share: usize,
    ) -> Result<Arc<LimiterCore>, RuleSetError> {
        let builder = builder(rule, context.clock).seed(context.seed);
        if rule.key.is_empty() {
            return builder.build_core().map_err(in_rule(rule));
        }
        builder.build_keyed_core(buckets(rule, memory_share)?).map_err(in_rule(rule))
    }
}

/// True if the rule counts by client address only.
fn is_by_client(rule: &Rule) -> bool {
    matches!(&*rule.key, [part] if part.attribute == Attribute::ClientIp)
}

/// Updates the limiter of a rule that changed.
fn update_limiter(limiter: &LimiterCore, old: &Rule, rule: &Rule, memory_share: usize) -> Result<(), RuleSetError> {
    limiter.queue.set_per_key(max_waiting(rule));
    let buckets = match rule.key.is_empty() {
        true => 0,
        // Resizing moves keys to other buckets and leaves copies behind; permits held there would never be released.
        false if holds_resources(old) || holds_resources(rule) => limiter.buckets(),
        false => buckets(rule, memory_share)?,
    };
    let same = old.limits == rule.limits && estimates(old) == estimates(rule);
    if same && !should_resize(limiter.buckets(), buckets) {
        return Ok(());
    }
    limiter.rebuild(rule.limits.clone(), estimates(rule), buckets).map_err(in_rule(rule))
}

/// True if requests of the rule hold permits or reservations. Its table keeps its size until it is created
/// anew.
fn holds_resources(rule: &Rule) -> bool {
    estimates(rule) || rule.limits.iter().any(Limit::is_concurrency)
}

/// True if a table should be resized: it must not exceed its share, and small growth is not worth it.
pub(super) const fn should_resize(current: usize, wanted: usize) -> bool {
    wanted < current || wanted > current * 2
}

/// Maximum number of requests queued per key of a rule.
fn max_waiting(rule: &Rule) -> usize {
    rule.on_limit.queue.map_or(QueueCapacity::default().per_key, |queue| queue.max_waiting as usize)
}

/// Builder of the rule's limiter.
pub(super) fn builder(rule: &Rule, clock: &ClockHandle) -> Builder {
    let builder = Builder::default().limits(rule.limits.iter().copied()).clock(clock.clone());
    let builder = builder.max_waiting(max_waiting(rule));
    if estimates(rule) { builder.reservable() } else { builder }
}

/// True if the rule's costs are estimates that are settled later.
pub(super) fn estimates(rule: &Rule) -> bool {
    matches!(rule.cost, Cost::Estimate { .. }) && !rule.is_metering()
}

/// Number of keys of a rule within its share of memory.
fn capacity(rule: &Rule, memory_share: usize) -> usize {
    match rule.max_keys {
        Some(keys) => keys,
        None => (memory_share / bytes_per_key(rule).max(1)).clamp(1, DEFAULT_KEYS),
    }
}

/// Bytes per key of a rule, including bans.
fn bytes_per_key(rule: &Rule) -> usize {
    let estimates = estimates(rule);
    let words = |limit: &Limit| if estimates { limit.reservable().words() } else { limit.words() };
    let of_limits = match rule.limits.is_empty() {
        true => 0,
        false => Table::bytes_per_key(rule.limits.iter().map(words).sum()),
    };
    of_limits + rule.ban.and_then(BanTable::words).map_or(0, Table::bytes_per_key)
}

/// Number of keys that a rule can track, and their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyCapacity {
    /// Number of keys; zero for a rule without a key.
    pub keys: usize,
    /// Memory in bytes, including bans.
    pub bytes: usize,
}

/// Number of keys that each of these rules can track within a memory budget in bytes for all of them.
///
/// ```
/// use sluicegate_engine::{sluice::key_capacities, rule::{Attribute, Rule}};
///
/// let mut per_ip = Rule::new("per-ip", ["300/1m".parse()?]);
/// per_ip.key = vec![Attribute::ClientIp.into()];
/// let capacities = key_capacities(&[per_ip, Rule::new("total", ["1000/s".parse()?])], 1 << 20);
/// assert!(capacities[0].keys > 10_000 && capacities[0].bytes <= 1 << 20);
/// assert_eq!(capacities[1].keys, 0);
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
pub fn key_capacities(rules: &[Rule], memory: usize) -> Vec<KeyCapacity> {
    let memory_share = memory_share(rules, memory);
    let of_rule = |rule: &Rule| match rule.key.is_empty() {
        true => KeyCapacity { keys: 0, bytes: 0 },
        false => {
            let keys = capacity(rule, memory_share);
            KeyCapacity { keys, bytes: keys.saturating_mul(bytes_per_key(rule)) }
        }
    };
    rules.iter().map(of_rule).collect()
}

/// Share of memory of each keyed rule without an explicit number of keys.
fn memory_share(rules: &[Rule], memory: usize) -> usize {
    let keyed = rules.iter().filter(|rule| !rule.key.is_empty() && rule.max_keys.is_none()).count();
    memory / round_up_rules(keyed).max(1)
}

/// Rounds the number of rules up by at most an eighth: one rule more or less then seldom changes the share, and
/// tables keep their size.
fn round_up_rules(rules: usize) -> usize {
    let step = (rules / 8).checked_ilog2().map_or(1, |octave| 1 << octave);
    if rules <= 16 { rules } else { rules.next_multiple_of(step) }
}

/// Rejects a rule that exceeds the available memory, before anything changes.
fn check_memory(rule: &Rule, memory_share: usize) -> Result<(), RuleSetError> {
    let keys = capacity(rule, memory_share);
    Table::buckets_for(keys).map_err(in_rule(rule))?;
    let bytes = keys.saturating_mul(bytes_per_key(rule));
    let reserved = Vec::<u8>::new().try_reserve_exact(bytes);
    reserved.map_err(|_| in_rule(rule)(LimitError::Memory { keys }))
}

/// Number of buckets of a rule's table.
pub(super) fn buckets(rule: &Rule, memory_share: usize) -> Result<usize, RuleSetError> {
    // Rounded down if the share decides, so that the share is not exceeded.
    let buckets = Table::buckets_for(capacity(rule, memory_share)).map_err(in_rule(rule))?;
    Ok(if rule.max_keys.is_none() { buckets.saturating_sub(1).max(1) } else { buckets })
}
