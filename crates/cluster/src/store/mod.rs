//! The store as the engine sees it.
//!
//! ```text
//! wants of a request ---> one ask (all in one slot) -----------------> driver
//!                    \--> several slots, or a lease among them: one after the other, and what was taken
//!                         goes back if a later one refuses
//! ```

mod exact;
mod grants;
mod limits;
mod permits;
mod sharing;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::fleet::{Asked, FleetLimits, FleetSaid, FleetStore, StoreLost, Want, Wants};
use sluicegate_engine::rule::{ExprError, Rule};
use sluicegate_engine::{LimitError, Sluice};

use self::exact::{Exact, ExactBatch};
use self::grants::Steps;
use self::limits::ClusterLimits;
use self::permits::Permits;
use self::sharing::Sharing;
use crate::bulletin::ListKind;
use crate::driver::Driver;
use crate::error::StartError;
use crate::exact::{END, RENEW, TAKE};
use crate::health::Health;
use crate::options::{StoreOptions, Topology};

/// How many processes to share out limits among before the store has told.
const NODES_UNTOLD: u32 = 2;

/// Counts that processes share in Redis or Valkey.
///
/// ```no_run
/// use sluicegate_cluster::{ClusterStore, StoreOptions, Topology};
/// use sluicegate_engine::{Sluice, rule::{ClusterMode, OnStoreFailure, Rule, Scope}};
///
/// let store = ClusterStore::start(&StoreOptions::new(Topology::Single, ["127.0.0.1:6379"]))?;
/// let mut total = Rule::new("total", ["1000/s".parse()?]);
/// total.scope = Scope::Cluster { mode: ClusterMode::Exact, on_store_failure: OnStoreFailure::LocalShare };
/// let sluice = Sluice::builder().rule(total).store(store.clone()).build()?;
/// store.share_with(&sluice); // bans and lists
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ClusterStore {
    driver: Driver<ExactBatch>,
    exact: Exact,
    sharing: Sharing,
    prefix: Arc<str>,
    permit_life: Duration,
    expected_nodes: Option<u32>,
    /// What each rule is counted with, by its name.
    rules: Mutex<HashMap<String, Arc<ClusterLimits>>>,
}

impl ClusterStore {
    /// Starts to talk to a store. It need not be there yet: until it is, rules are decided by their policy.
    pub fn start(options: &StoreOptions) -> Result<Arc<Self>, StartError> {
        let scripts = vec![&*TAKE, &*END, &*RENEW, crate::bulletin::script()];
        let driver = Driver::start(options, ExactBatch, scripts)?;
        let permits = Permits::start(&driver, options.permit_time_to_live, options.topology == Topology::Cluster);
        let sharing = Sharing::start(&driver, &options.key_prefix);
        let exact = Exact::new(driver.background(), permits, options.topology == Topology::Cluster);
        Ok(Arc::new(Self {
            driver,
            exact,
            sharing,
            prefix: options.key_prefix.as_str().into(),
            permit_life: options.permit_time_to_live,
            expected_nodes: options.expected_nodes.map(std::num::NonZeroU32::get),
            rules: Mutex::default(),
        }))
    }

    /// How the store is doing.
    pub fn health(&self) -> Health {
        self.driver.health()
    }

    /// Shares the bans of a sluice's cluster-wide rules with other processes, and gives it the fleet's lists.
    /// The store does not keep the sluice alive.
    pub fn share_with(&self, sluice: &Sluice) {
        self.sharing.add(sluice);
    }

    /// Puts a condition on a list of the whole fleet, for so long if that is said. Every process that
    /// [shares](ClusterStore::share_with) knows within a second.
    pub fn enlist(&self, list: ListKind, condition: &str, lasting: Option<Duration>) -> Result<(), ExprError> {
        self.sharing.enlist(list, condition, lasting)
    }

    /// Takes a condition off a list of the fleet. It is known by its text.
    pub fn unlist(&self, list: ListKind, condition: &str) {
        self.sharing.unlist(list, condition);
    }

    /// Ends it: what is under way is finished, slices go back, this process is no longer counted. Takes
    /// half a second at most.
    pub async fn close(&self) {
        self.driver.close().await;
    }

    fn limits<'a>(&self, want: &'a Want) -> Option<&'a ClusterLimits> {
        let limits: &dyn Any = &*want.limits;
        limits.downcast_ref()
    }
}

impl FleetStore for ClusterStore {
    fn open(&self, rule: &Rule) -> Result<Arc<dyn FleetLimits>, LimitError> {
        let limits = Arc::new(ClusterLimits::new(rule, &self.prefix, self.permit_life)?);
        self.rules.lock().insert(rule.name.clone(), Arc::clone(&limits));
        Ok(limits)
    }

    fn ask(&self, wants: Wants) -> Asked {
        if self.driver.now_degraded() {
            return Asked::Now(Err(StoreLost));
        }
        let units: Option<_> = wants.iter().map(|want| Some(self.limits(want)?.unit(want, &self.exact))).collect();
        // What another store has opened is not ours to answer.
        let Some(units) = units else { return Asked::Now(Err(StoreLost)) };
        Asked::Later(Box::pin(tokio::task::coop::unconstrained(Steps::new(&self.exact, units).take())))
    }

    fn nodes(&self) -> u32 {
        self.driver.live_nodes().or(self.expected_nodes).unwrap_or(NODES_UNTOLD).max(1)
    }
}

impl fmt::Debug for ClusterStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterStore").field("prefix", &self.prefix).field("health", &self.health()).finish()
    }
}

impl From<crate::ask::Said> for FleetSaid {
    fn from(said: crate::ask::Said) -> Self {
        Self { check: said.check, limit: said.limit, status: said.status }
    }
}
