//! How a sluice is made.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use thiserror::Error;

use super::snapshot::{Means, Snapshot};
use super::{GivenLists, SavedRules, Shared, Sluice};
use crate::clock::ClockHandle;
use crate::fleet::FleetStore;
use crate::limit::LimitError;
use crate::rule::{Lists, Rule, TargetError};
use crate::table::random_seed;

/// Memory for the keys of all rules unless told otherwise: 256 MiB.
const DEFAULT_MEMORY: usize = 256 << 20;

/// Collects what a sluice needs.
#[derive(Debug)]
#[must_use]
pub struct SluiceBuilder {
    rules: Vec<Rule>,
    lists: Lists,
    memory: usize,
    clock: ClockHandle,
    saved: Option<SavedRules>,
    store: Option<Arc<dyn FleetStore>>,
    watch_keys: bool,
}

/// Why rules cannot be put in force together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuleSetError {
    /// Two rules of one name.
    #[error("two rules are named '{name}': state belongs to a name, so names must differ")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A rule's limits are wrong.
    #[error("rule '{rule}': {source}")]
    Limit {
        /// The rule.
        rule: String,
        /// What is wrong.
        source: LimitError,
    },
    /// What a rule is for cannot be.
    #[error("rule '{rule}': {source}")]
    Target {
        /// The rule.
        rule: String,
        /// What is wrong.
        source: TargetError,
    },
    /// A rule's ban has a zero in it.
    #[error("rule '{rule}': a ban needs at least one refusal, some time to count them in and some time to last")]
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
            watch_keys: false,
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

    /// Who is always let through, and who never.
    pub fn lists(mut self, lists: Lists) -> Self {
        self.lists = lists;
        self
    }

    /// Bytes for the keys of all rules together; 256 MiB unless told otherwise. Each rule with a key
    /// that does not say how many it remembers gets an equal share, at most 262,144 keys' worth. Among more than 16
    /// rules the share is that of a few rules more, so that it seldom changes.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Takes the time from another clock than the system's.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Goes on where a saved sluice stood, rule by rule, as far as the rules still fit;
    /// [`Sluice::started_fresh`] tells which do not.
    pub fn restore(mut self, saved: SavedRules) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Counts rules with `scope: cluster` in a store that several processes share. Without one they are
    /// counted here, like any other.
    pub fn store(mut self, store: Arc<dyn FleetStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Remembers which keys of every rule with a key ask most and are refused most, for [`Sluice::top_keys`]. Takes
    /// up to 64 MiB, and some tens of nanoseconds per decision.
    ///
    /// ```
    /// use sluicegate_engine::{Sluice, rule::{Attribute, Request, Rule}};
    ///
    /// let mut per_ip = Rule::new("per-ip", ["2/1m".parse()?]);
    /// per_ip.key = vec![Attribute::ClientIp.into()];
    /// let sluice = Sluice::builder().rule(per_ip).watch_keys().build()?;
    /// for host in [1, 2, 2, 2, 2] {
    ///     let _ = sluice.decide(&Request::new("GET", "/").with_client_ip([203, 0, 113, host]));
    /// }
    /// let top = sluice.top_keys("per-ip").unwrap_or_default();
    /// let heaviest = |list: &[sluicegate_engine::sluice::TopKey]| list.first().map(|top| (top.key.clone(), top.count));
    /// assert_eq!(heaviest(&top.asked.keys), Some(("203.0.113.2".to_owned(), 4)));
    /// assert_eq!(heaviest(&top.refused.keys), Some(("203.0.113.2".to_owned(), 2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch_keys(mut self) -> Self {
        self.watch_keys = true;
        self
    }

    /// Puts the rules in force.
    pub fn build(self) -> Result<Sluice, RuleSetError> {
        let seed = self.saved.as_ref().map_or_else(random_seed, |saved| saved.seed);
        let watching = self.watch_keys.then(|| available_parallelism().map_or(1, NonZero::get));
        let means = Means { clock: &self.clock, memory: self.memory, seed, store: self.store.as_ref(), watching };
        let mut snapshot = Snapshot::build(self.rules, self.lists.clone(), &means, None)?;
        let started_fresh = self.saved.as_ref().map(|saved| snapshot.restore(saved, &self.clock)).unwrap_or_default();
        let shared = Shared {
            snapshot: ArcSwap::from_pointee(snapshot),
            clock: self.clock,
            memory: self.memory,
            store: self.store,
            replacing: Mutex::new(GivenLists { own: self.lists, further: Lists::default() }),
            started_fresh,
            retired: Mutex::default(),
            watching,
        };
        Ok(Sluice { shared: Arc::new(shared) })
    }
}
