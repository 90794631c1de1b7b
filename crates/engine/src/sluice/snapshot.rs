//! Rules compiled for deciding, with their state.

use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rapidhash::RapidHashMap;

use super::ban::{BanBook, BanNews, Banned};
use super::counts::{Counters, ListCounters, RuleCounts};
use super::fleet::FleetState;
use super::meter::Pacer;
use super::prepared::Prepared;
use super::top::{Detail, Watch};
use super::{RuleSetError, in_rule};
use crate::clock::ClockHandle;
use crate::fleet::{FleetLimits, FleetStore};
use crate::gate::Gate;
use crate::limit::{Limit, LimitError};
use crate::limiter::{Builder, Inner, KeyedCore};
use crate::rule::key::{hash_address, hash_written};
use crate::rule::{Attribute, Cost, ListIndex, Lists, Rule, RuleIndex, Side};
use crate::table::{KeyHasher, Table};
use crate::time::Timestamp;
use crate::wait::Bounds;

/// Keys a rule remembers if neither it nor the memory says otherwise.
const DEFAULT_KEYS: usize = 1 << 18;

/// An immutable set of rules. The state behind it is shared with the snapshot it replaced.
pub(super) struct Snapshot {
    rules: Vec<Rule>,
    /// Where each rule stands, by its name.
    positions: RapidHashMap<Box<str>, usize>,
    index: RuleIndex,
    lists: ListIndex,
    list_counters: Arc<ListCounters>,
    states: Vec<RuleState>,
    seed: u64,
    edition: u64,
    /// Where cluster-wide rules are counted.
    store: Option<Arc<dyn FleetStore>>,
    /// Whether a rule is counted there.
    clustered: bool,
    /// Whether a rule paces bytes.
    metering: bool,
    /// Whether a rule has a gate.
    gated: bool,
    /// The rule that most likely asks for the state of a client's address, if there is one.
    by_client: Option<usize>,
    /// What an adapter has prepared for these rules.
    prepared: Prepared,
}

/// The next set of rules in this process is this one.
static NEXT_EDITION: AtomicU64 = AtomicU64::new(1);

/// What the state of new rules is made with.
pub(super) struct Means<'a> {
    pub(super) clock: &'a ClockHandle,
    /// Bytes for the keys of all rules.
    pub(super) memory: usize,
    /// What all keys are hashed with.
    pub(super) seed: u64,
    /// Where cluster-wide rules are counted; `None`: here.
    pub(super) store: Option<&'a Arc<dyn FleetStore>>,
    /// How many threads decide at a time, if the heaviest keys are to be remembered.
    pub(super) watching: Option<usize>,
}

/// What a rule counts with.
#[derive(Clone)]
pub(super) struct RuleState {
    /// `None` for rules without limits of their own, and for those a store counts.
    pub(super) limiter: Option<Arc<Inner>>,
    /// The limiter's table, reached without asking the limiter for it every time.
    pub(super) core: Option<Arc<KeyedCore>>,
    /// Whether a look into that table is all there is to the rule.
    plain: bool,
    /// What a rule that paces bytes meters with, by the limiter. It has no say in decisions.
    pub(super) pacer: Option<Arc<Pacer>>,
    /// What a store counts the rule with.
    pub(super) fleet: Option<Arc<FleetState>>,
    pub(super) bans: Option<Arc<BanBook>>,
    pub(super) counters: Arc<Counters>,
    /// Where its requests are held back under strain.
    pub(super) gate: Option<Gate>,
    /// Who comes, if that is to be remembered.
    pub(super) watch: Option<Arc<Watch>>,
}

impl Snapshot {
    pub(super) fn build(
        rules: Vec<Rule>,
        lists: Lists,
        means: &Means<'_>,
        old: Option<&Self>,
    ) -> Result<Self, RuleSetError> {
        // Everything that can fail comes before anything changes.
        let mut positions = RapidHashMap::default();
        for (position, rule) in rules.iter().enumerate() {
            if positions.insert(rule.name.as_str().into(), position).is_some() {
                return Err(RuleSetError::DuplicateName { name: rule.name.clone() });
            }
            if !rule.limits.is_empty() {
                Builder::plan(rule.limits.clone(), false).map_err(in_rule(rule))?;
            }
            rule.target.check().map_err(|source| RuleSetError::Target { rule: rule.name.clone(), source })?;
            BanBook::check(rule)?;
        }
        let share = share(&rules, means.memory);
        let keyed = rules.iter().filter(|rule| !rule.key.is_empty()).count();
        let detail = means.watching.map(|threads| Detail::of(keyed, threads));
        rules.iter().filter(|rule| !rule.key.is_empty()).try_for_each(|rule| check_memory(rule, share))?;
        let opened = rules.iter().map(|rule| FleetState::open(rule, means)).collect::<Result<Vec<_>, _>>()?;
        let states = rules.iter().zip(opened).map(|(rule, opened)| {
            let old = old.and_then(|old| old.position(&rule.name).map(|at| (&old.rules[at], &old.states[at])));
            let mut state = RuleState::take_up(rule, means, share, old, opened)?;
            state.watch = detail.filter(|_| !rule.key.is_empty()).map(|detail| state.watched(detail, means.clock));
            Ok(state)
        });
        let states = states.collect::<Result<Vec<_>, _>>()?;
        let index = RuleIndex::build(&rules);
        let lists = ListIndex::build(&lists);
        let list_counters = old.map(|old| Arc::clone(&old.list_counters)).unwrap_or_default();
        let edition = NEXT_EDITION.fetch_add(1, Ordering::Relaxed);
        let clustered = states.iter().any(|state: &RuleState| state.fleet.is_some());
        let metering = states.iter().any(|state: &RuleState| state.pacer.is_some());
        let gated = states.iter().any(|state: &RuleState| state.gate.is_some());
        let store = means.store.cloned();
        let prepared = old.map(|old| old.prepared.for_next(&rules)).unwrap_or_default();
        let by_client = rules.iter().position(|rule| rule.side == Side::Inbound && is_by_client(rule));
        Ok(Self {
            rules,
            positions,
            index,
            lists,
            list_counters,
            states,
            seed: means.seed,
            edition,
            store,
            clustered,
            metering,
            gated,
            by_client,
            prepared,
        })
    }

    pub(super) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(super) const fn edition(&self) -> u64 {
        self.edition
    }

    /// Starts fetching what is known of a client from memory, if a rule counts by clients.
    #[inline]
    pub(super) fn expect_client(&self, client: IpAddr) {
        if let Some(rule) = self.by_client
            && let [part] = &*self.rules[rule].key
            && let Some(core) = &self.states[rule].core
        {
            let mut hasher = KeyHasher::new(self.seed);
            hash_address(part, client.to_canonical(), &mut hasher);
            core.prefetch(hasher.key());
        }
    }

    /// What was prepared for these rules; `None` if that is of another type.
    #[inline]
    pub(super) fn prepared<T: Any + Send + Sync>(&self, prepare: fn(&[Rule]) -> T) -> Option<&T> {
        self.prepared.get(&self.rules, prepare)
    }

    /// Where the rule of this name stands.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    /// Whether any rule is counted by the store.
    pub(super) const fn is_clustered(&self) -> bool {
        self.clustered
    }

    /// Whether any rule paces bytes.
    pub(super) const fn is_metering(&self) -> bool {
        self.metering
    }

    /// Whether any rule has a gate.
    #[inline]
    pub(super) const fn is_gated(&self) -> bool {
        self.gated
    }

    /// The rules with a gate.
    pub(super) fn gates(&self) -> impl Iterator<Item = (&Rule, &Gate)> {
        self.rules.iter().zip(&self.states).filter_map(|(rule, state)| Some((rule, state.gate.as_ref()?)))
    }

    /// Lets go of the bytes that wait for rules which do not pace any more in what comes after this.
    pub(super) fn hand_over_meters(&self, next: &Self) {
        for (rule, state) in self.rules.iter().zip(&self.states) {
            let Some(pacer) = &state.pacer else { continue };
            let goes_on = |at: usize| next.states[at].pacer.is_some() && !next.rules[at].is_shadow();
            pacer.lift(!next.position(&rule.name).is_some_and(goes_on));
        }
    }

    pub(super) fn store(&self) -> Option<&dyn FleetStore> {
        self.store.as_deref()
    }

    /// How many processes share what the store counts.
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

    /// What the lists have decided.
    pub(super) fn list_counters(&self) -> &ListCounters {
        &self.list_counters
    }

    pub(super) fn bans(&self, now: Timestamp) -> Vec<Banned> {
        let bans = self.rules.iter().zip(&self.states);
        bans.flat_map(|(rule, state)| state.bans.iter().flat_map(|book| book.list(&rule.name, now))).collect()
    }

    /// What the fleet should know of bans: what is new, or all there is.
    pub(super) fn ban_news(&self, all: bool, now: Timestamp) -> Vec<BanNews> {
        let books = self.rules.iter().zip(&self.states).filter_map(|(rule, state)| Some((rule, state.bans.as_ref()?)));
        let news = |(rule, book): (&Rule, &Arc<BanBook>)| match all {
            true => book.all_news(&rule.name, now),
            false => book.take_news(),
        };
        books.flat_map(news).collect()
    }

    /// Takes up what another process says of a ban. Answers whether there is such a rule.
    pub(super) fn hear_ban(&self, news: &BanNews, now: Timestamp) -> bool {
        let Some(book) = self.position(&news.rule).and_then(|index| self.states[index].bans.as_ref()) else {
            return false;
        };
        let mut hasher = KeyHasher::new(self.seed);
        let written = hash_written(news.key.as_bytes(), &mut hasher);
        if written {
            book.hear(news, hasher.key(), now);
        }
        written
    }

    pub(super) fn lift_ban(&self, rule: &str, key: &str) -> bool {
        let Some(index) = self.position(rule) else { return false };
        self.states[index].bans.as_ref().is_some_and(|book| book.lift(rule, key))
    }

    pub(super) fn bytes(&self) -> usize {
        let shares = self.states.iter().filter_map(|state| state.fleet.as_ref()?.share());
        let limiters = self.states.iter().filter_map(|state| state.limiter.clone()).chain(shares);
        let books = self.states.iter().filter_map(|state| state.bans.as_ref());
        limiters.map(|limiter| limiter.bytes()).sum::<usize>() + books.map(|book| book.bytes()).sum::<usize>()
    }
}

impl RuleState {
    /// The state of a rule: that of the rule it replaces where the two count the same thing, else fresh.
    fn take_up(
        rule: &Rule,
        means: &Means<'_>,
        share: usize,
        old: Option<(&Rule, &Self)>,
        opened: Option<Arc<dyn FleetLimits>>,
    ) -> Result<Self, RuleSetError> {
        // Bytes and requests are not the same thing: neither goes on where the other stood.
        let alike = |old: &Rule| old.key == rule.key && old.is_metering() == rule.is_metering();
        let old = old.filter(|(old, _)| alike(old));
        let fleet = FleetState::take_up(rule, means, share, old, opened)?;
        let limiter = match (old, rule.limits.is_empty() || fleet.is_some()) {
            (_, true) => None,
            (Some((old_rule, Self { limiter: Some(limiter), .. })), false) => {
                go_on(limiter, old_rule, rule, share)?;
                Some(Arc::clone(limiter))
            }
            _ => Some(Self::limiter(rule, means, share)?),
        };
        let bans = match (rule.ban, old) {
            (None, _) => None,
            (Some(ban), Some((old_rule, Self { bans: Some(bans), fleet: old_fleet, .. })))
                if old_rule.ban == Some(ban) && old_fleet.is_some() == fleet.is_some() =>
            {
                bans.resize(buckets(rule, share)?);
                Some(Arc::clone(bans))
            }
            (Some(ban), _) => {
                let builder = Builder::default().clock(means.clock.clone()).seed(means.seed);
                let book = BanBook::new(rule, ban, builder, buckets(rule, share)?)?;
                Some(Arc::new(if fleet.is_some() { book.telling() } else { book }))
            }
        };
        let counters = old.map_or_else(Arc::default, |(_, state)| Arc::clone(&state.counters));
        let watch = old.and_then(|(_, state)| state.watch.clone());
        let gate = rule.adaptive.as_ref().map(|_| {
            let old = old.and_then(|(_, state)| state.gate.clone());
            old.unwrap_or_else(|| Gate::new(means.clock.clone()))
        });
        let state = Self { limiter, core: None, plain: false, pacer: None, fleet, bans, counters, gate, watch };
        Ok(state.ready(rule, old.and_then(|(_, old)| old.pacer.as_ref())))
    }

    /// What remembers who comes: that of the rule it replaces, else a new one.
    fn watched(&self, detail: Detail, clock: &ClockHandle) -> Arc<Watch> {
        match &self.watch {
            Some(watch) => {
                watch.refine(detail);
                Arc::clone(watch)
            }
            None => Arc::new(Watch::new(detail, clock.now())),
        }
    }

    /// The same state, with everything that is reached by its limiter.
    pub(super) fn ready(mut self, rule: &Rule, old: Option<&Arc<Pacer>>) -> Self {
        self.core = self.limiter.as_ref().and_then(|limiter| limiter.core());
        let metering = self.limiter.as_ref().filter(|_| rule.is_metering());
        self.pacer = metering.map(|limiter| Pacer::take_up(rule, limiter, &self.counters, old));
        let has_more = rule.is_shadow()
            || self.gate.is_some()
            || self.pacer.is_some()
            || self.fleet.is_some()
            || self.bans.is_some();
        self.plain = !has_more && self.core.as_ref().is_some_and(|core| core.is_plain());
        self
    }

    /// Whether the rule enforces one token bucket per key, counted here, and does nothing else.
    #[inline]
    pub(super) const fn is_plain(&self) -> bool {
        self.plain
    }

    /// What decides about requests.
    #[inline]
    pub(super) const fn decider(&self) -> Option<&Arc<Inner>> {
        if self.pacer.is_some() { None } else { self.limiter.as_ref() }
    }

    /// What the rule has decided, and how it stands now.
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
            forgotten_early: self.limiter.as_ref().map_or(0, |limiter| limiter.forgotten()),
            waiting: self.waiting(),
            waited: waits.count(),
            waits,
            permits: rule.limits.iter().any(Limit::is_concurrency).then(|| self.permits()),
            used: self.limiter.as_ref().filter(|_| rule.key.is_empty()).map(|limiter| limiter.used(now)),
        }
    }

    /// How many permits are out.
    fn permits(&self) -> u64 {
        let here = self.limiter.as_ref().map_or(0, |limiter| limiter.permits());
        here + self.fleet.as_ref().map_or(0, |fleet| fleet.permits())
    }

    /// How many wait for their turn.
    fn waiting(&self) -> usize {
        let here = self.limiter.as_ref().map_or(0, |limiter| limiter.room.waiting());
        let at_gate = self.gate.as_ref().map_or(0, |gate| gate.waiting());
        here + at_gate + self.fleet.as_ref().map_or(0, |fleet| fleet.waiting())
    }

    /// A limiter of the rule's limits.
    pub(super) fn limiter(rule: &Rule, means: &Means<'_>, share: usize) -> Result<Arc<Inner>, RuleSetError> {
        let builder = builder(rule, means.clock).seed(means.seed);
        if rule.key.is_empty() {
            return builder.build_inner().map_err(in_rule(rule));
        }
        builder.build_keyed_inner(buckets(rule, share)?).map_err(in_rule(rule))
    }
}

/// Whether a rule counts by the client's address and nothing else.
fn is_by_client(rule: &Rule) -> bool {
    matches!(&*rule.key, [part] if part.attribute == Attribute::ClientIp)
}

/// Lets a rule's limiter go on under the rule's new form, with what that has changed.
fn go_on(limiter: &Inner, old: &Rule, rule: &Rule, share: usize) -> Result<(), RuleSetError> {
    limiter.room.set_per_key(most_waiting(rule));
    let buckets = match rule.key.is_empty() {
        true => 0,
        // A key that changes buckets leaves copies behind, and nobody would give back what those hold.
        false if holds_something(old) || holds_something(rule) => limiter.buckets(),
        false => buckets(rule, share)?,
    };
    let same = old.limits == rule.limits && estimates(old) == estimates(rule);
    if same && !worth_resizing(limiter.buckets(), buckets) {
        return Ok(());
    }
    limiter.rebuild(rule.limits.clone(), estimates(rule), buckets).map_err(in_rule(rule))
}

/// Whether callers of a rule hold something while they are inside. Its table keeps its size until it is
/// built anew.
fn holds_something(rule: &Rule) -> bool {
    estimates(rule) || rule.limits.iter().any(Limit::is_concurrency)
}

/// Whether a table should change its size: it must not be larger than its share, and need not grow for
/// a little.
pub(super) const fn worth_resizing(present: usize, wanted: usize) -> bool {
    wanted < present || wanted > present * 2
}

/// How many may wait on one key of a rule.
fn most_waiting(rule: &Rule) -> usize {
    rule.on_limit.queue.map_or(Bounds::default().per_key, |queue| queue.max_waiting as usize)
}

/// A builder of the rule's limiter.
pub(super) fn builder(rule: &Rule, clock: &ClockHandle) -> Builder {
    let builder = Builder::default().limits(rule.limits.iter().copied()).clock(clock.clone());
    let builder = builder.max_waiting(most_waiting(rule));
    if estimates(rule) { builder.reservable() } else { builder }
}

/// Whether the rule's costs are settled later.
pub(super) fn estimates(rule: &Rule) -> bool {
    matches!(rule.cost, Cost::Estimate { .. }) && !rule.is_metering()
}

/// How many keys a rule remembers within its share of memory.
fn capacity(rule: &Rule, share: usize) -> usize {
    match rule.max_keys {
        Some(keys) => keys,
        None => (share / bytes_per_key(rule).max(1)).clamp(1, DEFAULT_KEYS),
    }
}

/// What a key of a rule takes, its bans included.
fn bytes_per_key(rule: &Rule) -> usize {
    let estimates = estimates(rule);
    let words = |limit: &Limit| if estimates { limit.reservable().words() } else { limit.words() };
    let of_limits = match rule.limits.is_empty() {
        true => 0,
        false => Table::bytes_per_key(rule.limits.iter().map(words).sum()),
    };
    of_limits + rule.ban.and_then(BanBook::words).map_or(0, Table::bytes_per_key)
}

/// How many keys a rule remembers and what that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Keys; none for a rule that counts everything together.
    pub keys: usize,
    /// Bytes for them, its bans included.
    pub bytes: usize,
}

/// How many keys each of these rules would remember within so many bytes for all of them.
///
/// ```
/// use sluicegate_engine::{sluice::remembered, rule::{Attribute, Rule}};
///
/// let mut per_ip = Rule::new("per-ip", ["300/1m".parse()?]);
/// per_ip.key = vec![Attribute::ClientIp.into()];
/// let of_all = remembered(&[per_ip, Rule::new("total", ["1000/s".parse()?])], 1 << 20);
/// assert!(of_all[0].keys > 10_000 && of_all[0].bytes <= 1 << 20);
/// assert_eq!(of_all[1].keys, 0);
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
pub fn remembered(rules: &[Rule], memory: usize) -> Vec<Remembered> {
    let share = share(rules, memory);
    let of_rule = |rule: &Rule| match rule.key.is_empty() {
        true => Remembered { keys: 0, bytes: 0 },
        false => {
            let keys = capacity(rule, share);
            Remembered { keys, bytes: keys.saturating_mul(bytes_per_key(rule)) }
        }
    };
    rules.iter().map(of_rule).collect()
}

/// What each rule that does not say how many keys it remembers gets of the memory.
fn share(rules: &[Rule], memory: usize) -> usize {
    let keyed = rules.iter().filter(|rule| !rule.key.is_empty() && rule.max_keys.is_none()).count();
    memory / rounded_up(keyed).max(1)
}

/// As if there were a few more of many rules, an eighth at most: a rule more or less then seldom changes what each
/// gets, and tables stay as they are.
fn rounded_up(rules: usize) -> usize {
    let step = (rules / 8).checked_ilog2().map_or(1, |octave| 1 << octave);
    if rules <= 16 { rules } else { rules.next_multiple_of(step) }
}

/// Refuses a rule there is no memory for, before anything is changed.
fn check_memory(rule: &Rule, share: usize) -> Result<(), RuleSetError> {
    let keys = capacity(rule, share);
    Table::buckets_for(keys).map_err(in_rule(rule))?;
    let bytes = keys.saturating_mul(bytes_per_key(rule));
    let room = Vec::<u8>::new().try_reserve_exact(bytes);
    room.map_err(|_| in_rule(rule)(LimitError::Memory { keys }))
}

/// How many buckets a rule's table has.
pub(super) fn buckets(rule: &Rule, share: usize) -> Result<usize, RuleSetError> {
    // Rounded down where the share decides, so that the share is kept.
    let buckets = Table::buckets_for(capacity(rule, share)).map_err(in_rule(rule))?;
    Ok(if rule.max_keys.is_none() { buckets.saturating_sub(1).max(1) } else { buckets })
}
