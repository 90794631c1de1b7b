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
mod mail;
mod permits;
mod rulebook;
mod sharing;

use std::any::Any;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::fleet::{Asked, FleetLimits, FleetSaid, FleetStore, StoreLost, Want, Wants};
use sluicegate_engine::rule::{ExprError, Rule};
use sluicegate_engine::{LimitError, Sluice};
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

use self::exact::{Exact, ExactBatch};
use self::grants::Steps;
use self::limits::ClusterLimits;
use self::mail::{Mail, UnderWay};
use self::permits::Permits;
pub use self::rulebook::Rulebook;
use self::sharing::Sharing;
use crate::bulletin::ListKind;
use crate::driver::{Driver, random};
use crate::error::StartError;
use crate::exact::{END, RENEW, TAKE};
use crate::health::Health;
use crate::lease::{Held, LEASE, Leasable, LeaseTable, NodeId};
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
    rulebook: Rulebook,
    means: Means,
    expected_nodes: Option<u32>,
    /// What rules are counted with, as long as a sluice has them.
    opened: Arc<Opened>,
}

/// Limits that were opened, those first that were first.
type Opened = Mutex<Vec<Weak<ClusterLimits>>>;

/// What the limits of a rule are made with.
struct Means {
    prefix: Arc<str>,
    permit_life: Duration,
    deadline: Duration,
    driver: Driver<ExactBatch>,
    under_way: Arc<UnderWay>,
}

impl Means {
    fn lease_table(&self, terms: Leasable, capacity: usize) -> Arc<LeaseTable> {
        let mail = Mail::new(self.driver.clone(), self.deadline, &self.under_way);
        // Each table is a node of its own: the store tells its holders from those of the one it replaces.
        let node = NodeId(u128::from(random()) << 64 | u128::from(random()));
        let counters = Arc::clone(&self.driver.counters().leases);
        let table = LeaseTable::new(terms, node, capacity, ClockHandle::default(), Arc::clone(&mail) as _, counters);
        let table = Arc::new(table);
        mail.belongs_to(&table);
        table
    }
}

/// How long slices may take to go back when the store is closed.
const FAREWELL: Duration = Duration::from_millis(250);

/// How often leases are looked after.
const TICK: Duration = Duration::from_millis(50);

impl ClusterStore {
    /// Starts to talk to a store. It need not be there yet: until it is, rules are decided by their policy.
    pub fn start(options: &StoreOptions) -> Result<Arc<Self>, StartError> {
        let scripts = vec![&*TAKE, &*END, &*RENEW, &*LEASE, crate::bulletin::script(), crate::rulebook::script()];
        let driver = Driver::start(options, ExactBatch, scripts)?;
        let in_slots = options.topology == Topology::Cluster;
        let permits = Permits::start(&driver, options.permit_time_to_live, in_slots);
        let means = Means {
            prefix: options.key_prefix.as_str().into(),
            permit_life: options.permit_time_to_live,
            deadline: options.deadline,
            driver: driver.background(),
            under_way: UnderWay::new(),
        };
        let store = Self {
            exact: Exact::new(driver.background(), permits, in_slots),
            sharing: Sharing::start(&driver, &options.key_prefix),
            rulebook: Rulebook::new(&driver, &options.key_prefix),
            means,
            expected_nodes: options.expected_nodes.map(NonZeroU32::get),
            opened: Arc::default(),
            driver,
        };
        store.look_after_leases();
        Ok(Arc::new(store))
    }

    /// Renews leases, returns what is not needed, forgets idle keys and counts what is held, until the driver
    /// ends.
    fn look_after_leases(&self) {
        let (opened, counters) = (Arc::downgrade(&self.opened), Arc::clone(&self.driver.counters().leases));
        self.driver.spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                let Some(opened) = opened.upgrade() else { return };
                let mut held = Held::default();
                leases(&opened).iter().for_each(|table| held += table.tick());
                counters.hold(held);
            }
        });
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
    /// less than a second.
    pub async fn close(&self) {
        leases(&self.opened).iter().for_each(|table| table.close());
        let (under_way, (gone, all_gone)) = (Arc::clone(&self.means.under_way), oneshot::channel());
        self.driver.spawn(async move {
            // Who still decides asks for more, so there may always be some.
            let _ = timeout(FAREWELL, under_way.none()).await;
            // Who is gone need not be told.
            let _ = gone.send(());
        });
        // Fails if the driver has ended: then nothing is under way.
        let _ = all_gone.await;
        self.driver.close().await;
    }

    fn limits<'a>(&self, want: &'a Want) -> Option<&'a ClusterLimits> {
        let limits: &dyn Any = &*want.limits;
        limits.downcast_ref()
    }
}

impl FleetStore for ClusterStore {
    fn open(&self, rule: &Rule, seed: u64) -> Result<Arc<dyn FleetLimits>, LimitError> {
        let mut opened = self.opened.lock();
        opened.retain(|limits| limits.strong_count() > 0);
        let known: Vec<_> = opened.iter().filter_map(Weak::upgrade).filter(|limits| limits.suit(rule, seed)).collect();
        if let Some(known) = known.last() {
            return Ok(Arc::clone(known) as _);
        }
        let limits = Arc::new(ClusterLimits::new(rule, seed, &self.means)?);
        opened.push(Arc::downgrade(&limits));
        Ok(limits)
    }

    fn ask(&self, wants: Wants) -> Asked {
        if self.driver.now_degraded() {
            return Asked::Now(Err(StoreLost));
        }
        let mut steps = Steps::new(&self.exact);
        for (position, want) in wants.iter().enumerate() {
            // What another store has opened is not ours to answer.
            let Some(limits) = self.limits(want) else { return Asked::Now(Err(StoreLost)) };
            match limits.leases() {
                Some(leases) => steps.lease(position, leases, want, || limits.lease_key(&want.key)),
                None => steps.exact(position, limits.unit(want, &self.exact)),
            }
        }
        Asked::Later(match steps.is_one_call() {
            true => Box::pin(unconstrained(steps.take())),
            false => Box::pin(unconstrained(steps.take_within(self.means.deadline))),
        })
    }

    fn nodes(&self) -> u32 {
        self.driver.live_nodes().or(self.expected_nodes).unwrap_or(NODES_UNTOLD).max(1)
    }
}

/// The lease tables of all limits that have one.
fn leases(opened: &Opened) -> Vec<Arc<LeaseTable>> {
    // The last to hold limits closes them, and that is not to happen under the lock.
    let limits: Vec<_> = opened.lock().iter().filter_map(Weak::upgrade).collect();
    limits.iter().filter_map(|limits| limits.leases().cloned()).collect()
}

impl fmt::Debug for ClusterStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterStore").field("prefix", &self.means.prefix).field("health", &self.health()).finish()
    }
}

impl From<crate::ask::Said> for FleetSaid {
    fn from(said: crate::ask::Said) -> Self {
        Self { check: said.check, limit: said.limit, status: said.status }
    }
}
