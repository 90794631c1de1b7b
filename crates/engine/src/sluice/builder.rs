//! Builder of a [`Sluice`].

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use thiserror::Error;

use super::snapshot::{BuildContext, Snapshot};
use super::{ListSources, SavedRules, Sluice, SluiceState};
use crate::clock::ClockHandle;
use crate::limit::LimitError;
use crate::rule::{Lists, Rule, TargetError};
use crate::store::Store;
use crate::table::random_seed;

/// Default memory for the keys of all rules: 256 MiB.
const DEFAULT_MEMORY: usize = 256 << 20;

/// Builder of a [`Sluice`]: rules, lists, memory, clock and store.
#[derive(Debug)]
#[must_use]
pub struct SluiceBuilder {
    rules: Vec<Rule>,
    lists: Lists,
    memory: usize,
    clock: ClockHandle,
    saved: Option<SavedRules>,
    store: Option<Arc<dyn Store>>,
    track_keys: bool,
}

/// Invalid rule set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleSetError {
    /// Two rules have the same name.
    #[error("duplicate rule name '{name}': the state of a rule is stored under its name")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A rule has invalid limits.
    #[error("rule '{rule}': {source}")]
    Limit {
        /// The rule.
        rule: String,
        /// The error.
        source: LimitError,
    },
    /// A rule has an invalid target.
    #[error("rule '{rule}': {source}")]
    Target {
        /// The rule.
        rule: String,
        /// The error.
        source: TargetError,
    },
    /// A rule's ban contains a zero.
    #[error("rule '{rule}': the ban's refusals, window and duration must be greater than zero")]
    Ban {
        /// The rule.
        rule: String,
    },
}

impl Default for SluiceBuilder {
    fn default() -> Self {
        Self {
            rules: Vec::new(),
            lists: Lists::default(),
            memory: DEFAULT_MEMORY,
            clock: ClockHandle::default(),
            saved: None,
            store: None,
            track_keys: false,
        }
    }
}

impl SluiceBuilder {
    /// Adds a rule.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Adds several rules.
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Sets the allow and deny lists.
    pub fn lists(mut self, lists: Lists) -> Self {
        self.lists = lists;
        self
    }

    /// Memory in bytes for the keys of all rules; default 256 MiB. Each keyed rule without an explicit number of
    /// keys gets an equal share, at most 262,144 keys. With more than 16 rules the share is computed for a slightly
    /// larger number of rules, so that it seldom changes.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the clock; the default is the system clock.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Restores saved state, rule by rule, for rules that it still fits; [`Sluice::unrestored_rules`] names the
    /// others.
    pub fn restore(mut self, saved: SavedRules) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Counts rules with `scope: cluster` in a store that several processes share. Without a store they are counted
    /// locally, like any other rule.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Tracks the keys with the most requests and the most refusals of every keyed rule, for [`Sluice::top_keys`].
    /// Uses up to 64 MiB and some tens of nanoseconds per decision.
    ///
    /// ```
    /// use sluicegate_engine::{Sluice, rule::{Attribute, Request, Rule}};
    ///
    /// let mut per_ip = Rule::new("per-ip", ["2/1m".parse()?]);
    /// per_ip.key = vec![Attribute::ClientIp.into()];
    /// let sluice = Sluice::builder().rule(per_ip).track_keys().build()?;
    /// for host in [1, 2, 2, 2, 2] {
    ///     let _ = sluice.decide(&Request::new("GET", "/").with_client_ip([203, 0, 113, host]));
    /// }
    /// let top = sluice.top_keys("per-ip").unwrap_or_default();
    /// let heaviest = |list: &[sluicegate_engine::sluice::TopKey]| list.first().map(|top| (top.key.clone(), top.count));
    /// assert_eq!(heaviest(&top.requested.keys), Some(("203.0.113.2".to_owned(), 4)));
    /// assert_eq!(heaviest(&top.refused.keys), Some(("203.0.113.2".to_owned(), 2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn track_keys(mut self) -> Self {
        self.track_keys = true;
        self
    }

    /// Builds the sluice and activates the rules.
    pub fn build(self) -> Result<Sluice, RuleSetError> {
        let seed = self.saved.as_ref().map_or_else(random_seed, |saved| saved.seed);
        let tracker_threads = self.track_keys.then(|| available_parallelism().map_or(1, NonZero::get));
        let context =
            BuildContext { clock: &self.clock, memory: self.memory, seed, store: self.store.as_ref(), tracker_threads };
        let mut snapshot = Snapshot::build(self.rules, self.lists.clone(), &context, None)?;
        let unrestored_rules =
            self.saved.as_ref().map(|saved| snapshot.restore(saved, &self.clock)).unwrap_or_default();
        let shared = SluiceState {
            snapshot: ArcSwap::from_pointee(snapshot),
            clock: self.clock,
            memory: self.memory,
            store: self.store,
            lists: Mutex::new(ListSources { local: self.lists, shared: Lists::default() }),
            unrestored_rules,
            retired: Mutex::default(),
            tracker_threads,
        };
        Ok(Sluice { shared: Arc::new(shared) })
    }
}
