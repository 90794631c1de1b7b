//! The same limits, counted by the whole fleet.
//!
//! A store counts by rules. Numbers that come with a call are made into one, under a name made of the numbers: who
//! comes with the same numbers and the same key is counted together, in whichever process. Other numbers are another
//! count, which is where this differs from counting alone: there a key keeps its moment when its numbers change.
//!
//! While the store is lost, each process admits its share of the numbers by itself.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smallvec::smallvec;

use super::{AdHoc, AdHocError, Throttled};
use crate::algorithm::{Algorithm, Alignment, Check};
use crate::fleet::{Asked, FleetKey, FleetLimits, FleetSaid, FleetStore, Granted, StoreLost, Want, share_of};
use crate::limit::{Limit, LimitError, Rate};
use crate::rule::{Attribute, ClusterMode, OnStoreFailure, Rule, Scope};
use crate::table::hash_with;
use crate::time::Timestamp;

/// The most sets of numbers that are kept ready. Beyond that they are made ready anew.
const MOST_READY: usize = 1_024;

/// What is done to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// So much is taken; nothing: it is looked at.
    Take(u64),
    /// So much is given back.
    GiveBack(u64),
}

/// An answer of the fleet, to be awaited.
pub type Throttling = Pin<Box<dyn Future<Output = Result<Throttled, AdHocError>> + Send>>;

/// The numbers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Numbers {
    Bucket { max_burst: u64, count: u64, period: Duration },
    Window { requests: u64, unit: Duration },
}

impl Numbers {
    fn limit(self) -> Result<Limit, LimitError> {
        match self {
            Self::Bucket { max_burst, count, period } => {
                Limit::token_bucket(Rate::new(count, period)?, max_burst.saturating_add(1))
            }
            Self::Window { requests, unit } => Limit::fixed_window(requests, unit, Alignment::Epoch),
        }
    }

    /// What is left of them for one of so many processes.
    fn share(self, nodes: u32) -> Result<Self, LimitError> {
        Ok(match share_of(self.limit()?, nodes)? {
            Some(Limit::TokenBucket(share)) => {
                let rate = share.rate();
                Self::Bucket { max_burst: share.burst() - 1, count: rate.count(), period: rate.period() }
            }
            Some(Limit::FixedWindow(share)) => Self::Window { requests: share.limit(), unit: share.window() },
            _ => self,
        })
    }

    /// Other numbers have another name.
    fn name(self) -> String {
        match self {
            Self::Bucket { max_burst, count, period } => format!("adhoc-{max_burst}-{count}-{}", period.as_nanos()),
            Self::Window { requests, unit } => format!("adhoc-{requests}-{}", unit.as_nanos()),
        }
    }
}

/// The store, and what it has made ready.
pub(super) struct Fleet {
    store: Arc<dyn FleetStore>,
    ready: Mutex<HashMap<Numbers, Arc<dyn FleetLimits>>>,
}

impl Fleet {
    pub(super) fn new(store: Arc<dyn FleetStore>) -> Self {
        Self { store, ready: Mutex::new(HashMap::new()) }
    }

    fn limits(&self, numbers: Numbers, seed: u64) -> Result<Arc<dyn FleetLimits>, LimitError> {
        let mut ready = self.ready.lock();
        if let Some(known) = ready.get(&numbers) {
            return Ok(Arc::clone(known));
        }
        let mut rule = Rule::new(numbers.name(), [numbers.limit()?]);
        rule.key = vec![Attribute::custom("key").into()];
        rule.scope = Scope::Cluster { mode: ClusterMode::Exact, on_store_failure: OnStoreFailure::LocalShare };
        let opened = self.store.open(&rule, seed)?;
        if ready.len() >= MOST_READY {
            ready.clear();
        }
        ready.insert(numbers, Arc::clone(&opened));
        Ok(opened)
    }
}

impl AdHoc {
    /// Whether a store counts.
    pub const fn is_shared(&self) -> bool {
        self.fleet.is_some()
    }

    /// [`AdHoc::bucket`], counted by the fleet if there is a store.
    pub fn ask_bucket(
        self: &Arc<Self>,
        key: &[u8],
        max_burst: u64,
        count: u64,
        period: Duration,
        deed: Deed,
    ) -> Result<Throttling, AdHocError> {
        self.ask(key, Numbers::Bucket { max_burst, count, period }, deed)
    }

    /// [`AdHoc::window`], counted by the fleet if there is a store.
    pub fn ask_window(
        self: &Arc<Self>,
        key: &[u8],
        requests: u64,
        unit: Duration,
        deed: Deed,
    ) -> Result<Throttling, AdHocError> {
        self.ask(key, Numbers::Window { requests, unit }, deed)
    }

    fn ask(self: &Arc<Self>, key: &[u8], numbers: Numbers, deed: Deed) -> Result<Throttling, AdHocError> {
        let counts = !matches!(numbers, Numbers::Window { requests: 0, .. });
        // What admits nothing is counted nowhere.
        let Some(fleet) = self.fleet.as_ref().filter(|_| counts) else {
            return Ok(Box::pin(std::future::ready(self.here(key, numbers, deed))));
        };
        let limits = fleet.limits(numbers, self.seed)?;
        let cost = if let Deed::Take(cost) = deed { cost } else { 0 };
        let hash = hash_with(self.seed, key).0;
        let asked = fleet.store.ask(smallvec![Want { limits, hash, key: FleetKey::from(key), cost }]);
        let (this, key) = (Arc::clone(self), key.to_vec());
        Ok(Box::pin(async move {
            let answer = match asked {
                Asked::Now(answer) => answer,
                Asked::Later(answer) => answer.await,
            };
            match answer {
                Ok(granted) => this.heard(granted, numbers, deed),
                Err(StoreLost) => this.by_share(&key, numbers, deed),
            }
        }))
    }

    fn heard(&self, granted: Granted, numbers: Numbers, deed: Deed) -> Result<Throttled, AdHocError> {
        let Granted { said, taken } = granted;
        let FleetSaid { check, mut status, .. } = said.first().copied().unwrap_or(FleetSaid::NOT_ASKED);
        if let (Deed::GiveBack(amount), Some(taken)) = (deed, taken) {
            taken.refund(&[amount]);
            status.remaining = status.remaining.saturating_add(amount).min(status.limit);
        }
        let limit = numbers.limit()?;
        let reset_after = match limit {
            Limit::FixedWindow(window) => {
                let now = self.clock.now();
                Timestamp::from_nanos(window.commit(&mut [0, 0], now, 0, false)) - now
            }
            _ => Duration::from_nanos(status.reset),
        };
        Ok(Throttled {
            limited: !matches!(check, Check::Now | Check::After(_)),
            limit: limit.capacity(),
            remaining: status.remaining,
            retry_after: if let Check::NotBefore(wait) = check { Some(Duration::from_nanos(wait)) } else { None },
            reset_after,
        })
    }

    /// What this process may admit by itself while the store is lost.
    fn by_share(&self, key: &[u8], numbers: Numbers, deed: Deed) -> Result<Throttled, AdHocError> {
        let nodes = self.fleet.as_ref().map_or(1, |fleet| fleet.store.nodes());
        let said = self.here(key, numbers.share(nodes)?, deed)?;
        Ok(Throttled { limit: numbers.limit()?.capacity(), ..said })
    }

    /// Counted in this process.
    fn here(&self, key: &[u8], numbers: Numbers, deed: Deed) -> Result<Throttled, AdHocError> {
        match (numbers, deed) {
            (Numbers::Bucket { max_burst, count, period }, Deed::Take(cost)) => {
                self.bucket(key, max_burst, count, period, cost)
            }
            (Numbers::Bucket { max_burst, count, period }, Deed::GiveBack(cost)) => {
                self.give_back_to_bucket(key, max_burst, count, period, cost)
            }
            (Numbers::Window { requests, unit }, Deed::Take(hits)) => self.window(key, requests, unit, hits),
            (Numbers::Window { requests, unit }, Deed::GiveBack(hits)) => {
                self.give_back_to_window(key, requests, unit, hits)
            }
        }
    }
}
