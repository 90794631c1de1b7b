//! The engine's store implementation on Redis or Valkey.
//!
//! ```text
//! requests of a decision ---> one DecisionRequest (all in one slot) ---> store client
//!                        \--> several slots, or a lease among them: in sequence; earlier steps are
//!                             undone if a later one refuses
//! ```

mod acquire;
mod exact;
mod lease_transport;
mod limits;
mod permits;
mod rule_repository;
mod sync;

use std::any::Any;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::rule::{ExprError, Rule};
use sluicegate_engine::store::{
    AcquireCall, Store, StoreDecision, StoreLimits, StoreRequest, StoreRequests, StoreUnavailable,
};
use sluicegate_engine::{LimitError, Sluice};
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use tokio::time::timeout;

use self::acquire::Acquisition;
use self::exact::{ExactBatch, ExactStore};
use self::lease_transport::{InFlightRequests, StoreLeaseTransport};
use self::limits::ClusterLimits;
use self::permits::PermitRenewer;
pub use self::rule_repository::RuleRepository;
use self::sync::SharedStateSync;
use crate::client::{StoreClient, random};
use crate::error::StartError;
use crate::exact::{ACQUIRE, RELEASE, RENEW};
use crate::health::Health;
use crate::lease::{LEASE, LeaseHoldings, LeaseParams, LeaseTable, NodeId};
use crate::options::{StoreOptions, Topology};
use crate::shared_state::ListKind;

/// Number of processes to divide limits among until the store has reported it.
const DEFAULT_NODES: u32 = 2;

/// Cluster store: limits shared by processes through Redis or Valkey.
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
    client: StoreClient<ExactBatch>,
    exact: ExactStore,
    sync: SharedStateSync,
    rule_repository: RuleRepository,
    context: StoreContext,
    expected_nodes: Option<u32>,
    /// Limits of rules, while a sluice uses them.
    open_limits: Arc<OpenLimits>,
}

/// Open limits, oldest first.
type OpenLimits = Mutex<Vec<Weak<ClusterLimits>>>;

/// Context for building a rule's limits.
struct StoreContext {
    prefix: Arc<str>,
    permit_ttl: Duration,
    deadline: Duration,
    client: StoreClient<ExactBatch>,
    in_flight: Arc<InFlightRequests>,
}

impl StoreContext {
    fn lease_table(&self, params: LeaseParams, capacity: usize) -> Arc<LeaseTable> {
        let transport = StoreLeaseTransport::new(self.client.clone(), self.deadline, &self.in_flight);
        // Each table is a node of its own: the store separates its holders from those of the table it replaces.
        let node = NodeId(u128::from(random()) << 64 | u128::from(random()));
        let counters = Arc::clone(&self.client.counters().leases);
        let table =
            LeaseTable::new(params, node, capacity, ClockHandle::default(), Arc::clone(&transport) as _, counters);
        let table = Arc::new(table);
        transport.set_table(&table);
        table
    }
}

/// Time that slices have to be returned on close.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(250);

/// Interval of lease maintenance.
const LEASE_TICK: Duration = Duration::from_millis(50);

impl ClusterStore {
    /// Starts the store client. The store may be down: until it is up, rules follow their failure policy.
    pub fn start(options: &StoreOptions) -> Result<Arc<Self>, StartError> {
        let scripts =
            vec![&*ACQUIRE, &*RELEASE, &*RENEW, &*LEASE, crate::shared_state::script(), crate::rules::script()];
        let client = StoreClient::start(options, ExactBatch, scripts)?;
        let in_slots = options.topology == Topology::Cluster;
        let permits = PermitRenewer::start(&client, options.permit_time_to_live, in_slots);
        let context = StoreContext {
            prefix: options.key_prefix.as_str().into(),
            permit_ttl: options.permit_time_to_live,
            deadline: options.deadline,
            client: client.background(),
            in_flight: InFlightRequests::new(),
        };
        let store = Self {
            exact: ExactStore::new(client.background(), permits, in_slots),
            sync: SharedStateSync::start(&client, &options.key_prefix),
            rule_repository: RuleRepository::new(&client, &options.key_prefix),
            context,
            expected_nodes: options.expected_nodes.map(NonZeroU32::get),
            open_limits: Arc::default(),
            client,
        };
        store.spawn_lease_maintenance();
        Ok(Arc::new(store))
    }

    /// Runs lease maintenance until the client ends: renews leases, returns unneeded slices, drops idle keys and
    /// counts holdings.
    fn spawn_lease_maintenance(&self) {
        let (opened, counters) = (Arc::downgrade(&self.open_limits), Arc::clone(&self.client.counters().leases));
        self.client.spawn(async move {
            loop {
                tokio::time::sleep(LEASE_TICK).await;
                let Some(opened) = opened.upgrade() else { return };
                let mut holdings = LeaseHoldings::default();
                lease_tables(&opened).iter().for_each(|table| holdings += table.tick());
                counters.set_holdings(holdings);
            }
        });
    }

    /// Health snapshot of the store.
    pub fn health(&self) -> Health {
        self.client.health()
    }

    /// Shares the bans of a sluice's cluster-wide rules with other processes, and gives it the cluster's lists.
    /// The store does not keep the sluice alive.
    pub fn share_with(&self, sluice: &Sluice) {
        self.sync.add(sluice);
    }

    /// Adds a condition to a list of the whole cluster, with a time to live if given. Every process that
    /// [shares](ClusterStore::share_with) applies it within a second.
    pub fn add_to_list(&self, list: ListKind, condition: &str, ttl: Option<Duration>) -> Result<(), ExprError> {
        self.sync.add_entry(list, condition, ttl)
    }

    /// Removes a condition from a list of the cluster. It is identified by its text.
    pub fn remove_from_list(&self, list: ListKind, condition: &str) {
        self.sync.remove_entry(list, condition);
    }

    /// Closes the store: finishes calls in flight, returns slices, deregisters this process. Takes
    /// less than a second.
    pub async fn close(&self) {
        lease_tables(&self.open_limits).iter().for_each(|table| table.close());
        let (in_flight, (done, all_done)) = (Arc::clone(&self.context.in_flight), oneshot::channel());
        self.client.spawn(async move {
            // Active callers request more, so there may always be some.
            let _ = timeout(CLOSE_TIMEOUT, in_flight.drained()).await;
            // The caller may be gone.
            let _ = done.send(());
        });
        // Fails if the client has ended: then nothing is in flight.
        let _ = all_done.await;
        self.client.close().await;
    }

    fn own_limits<'a>(&self, request: &'a StoreRequest) -> Option<&'a ClusterLimits> {
        let limits: &dyn Any = &*request.limits;
        limits.downcast_ref()
    }
}

impl Store for ClusterStore {
    fn open(&self, rule: &Rule, seed: u64) -> Result<Arc<dyn StoreLimits>, LimitError> {
        let mut opened = self.open_limits.lock();
        opened.retain(|limits| limits.strong_count() > 0);
        let known: Vec<_> =
            opened.iter().filter_map(Weak::upgrade).filter(|limits| limits.matches_rule(rule, seed)).collect();
        if let Some(known) = known.last() {
            return Ok(Arc::clone(known) as _);
        }
        let limits = Arc::new(ClusterLimits::new(rule, seed, &self.context)?);
        opened.push(Arc::downgrade(&limits));
        Ok(limits)
    }

    fn acquire(&self, requests: StoreRequests) -> AcquireCall {
        if self.client.is_degraded() {
            return AcquireCall::Ready(Err(StoreUnavailable));
        }
        let mut steps = Acquisition::new(&self.exact);
        for (position, request) in requests.iter().enumerate() {
            // Limits opened by another store cannot be decided here.
            let Some(limits) = self.own_limits(request) else { return AcquireCall::Ready(Err(StoreUnavailable)) };
            match limits.leases() {
                Some(leases) => steps.add_lease(position, leases, request, || limits.lease_key(&request.key)),
                None => steps.add_check(position, limits.check(request, &self.exact)),
            }
        }
        AcquireCall::Pending(match steps.is_single_call() {
            true => Box::pin(unconstrained(steps.acquire())),
            false => Box::pin(unconstrained(steps.acquire_within(self.context.deadline))),
        })
    }

    fn nodes(&self) -> u32 {
        self.client.live_nodes().or(self.expected_nodes).unwrap_or(DEFAULT_NODES).max(1)
    }
}

/// The lease tables of all limits that have one.
fn lease_tables(opened: &OpenLimits) -> Vec<Arc<LeaseTable>> {
    // The last owner of limits closes them, which must not happen under the lock.
    let limits: Vec<_> = opened.lock().iter().filter_map(Weak::upgrade).collect();
    limits.iter().filter_map(|limits| limits.leases().cloned()).collect()
}

impl fmt::Debug for ClusterStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterStore").field("prefix", &self.context.prefix).field("health", &self.health()).finish()
    }
}

impl From<crate::decision::KeyDecision> for StoreDecision {
    fn from(decision: crate::decision::KeyDecision) -> Self {
        Self { check: decision.check, limit: decision.limit, status: decision.status }
    }
}
