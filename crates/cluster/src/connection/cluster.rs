//! Connection to a Redis Cluster: one per primary, with the map from slot to primary.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::connector::{Connector, Login};
use super::multiplexed::Connection;
use super::server_check;
use super::slots::SlotMap;
use crate::error::{StoreError, StoreErrorKind};
use crate::health::{Counters, SharedCounters};
use crate::invocation::Invocation;
use crate::slot::slot_of;

/// Maximum redirects per call.
const MAX_REDIRECTS: u32 = 64;
/// Delay before a retry while a server cannot serve the slot.
const RETRY_DELAY: Duration = Duration::from_millis(2);
/// Pause after a failed connection attempt, and the minimum interval between slot map
/// refreshes.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);
/// A server silent for this long may have lost its slots.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(250);

pub(super) struct ClusterConnection {
    state: Arc<ClusterState>,
}

struct ClusterState {
    connector: Connector,
    seeds: Vec<Address>,
    slots: Mutex<SlotMap>,
    nodes: Mutex<HashMap<Arc<Address>, Arc<PrimaryNode>>>,
    /// Time of the last slot map refresh; locked during a refresh.
    last_refresh: tokio::sync::Mutex<Option<Instant>>,
    up: AtomicBool,
    counters: SharedCounters,
}

/// One primary.
#[derive(Default)]
struct PrimaryNode {
    /// Locked while a connection is made: never two at once.
    state: tokio::sync::Mutex<NodeState>,
}

#[derive(Default)]
struct NodeState {
    connection: Option<Connection>,
    failed: Option<(Instant, StoreError)>,
}

impl ClusterConnection {
    pub(super) fn new(connector: Connector, seeds: Vec<Address>, counters: SharedCounters) -> Self {
        let shared = ClusterState {
            connector,
            seeds,
            slots: Mutex::new(SlotMap::unknown()),
            nodes: Mutex::default(),
            last_refresh: tokio::sync::Mutex::new(None),
            up: AtomicBool::new(false),
            counters,
        };
        Self { state: Arc::new(shared) }
    }

    /// Drops all connections, refreshes the slot map, and connects to each primary.
    pub(super) async fn connect(&self) -> Result<(), StoreError> {
        if self.is_up() {
            Counters::add(&self.state.counters.reconnects, 1);
        }
        self.state.nodes.lock().clear();
        *self.state.last_refresh.lock().await = None;
        self.state.refresh_slots().await?;
        let owners = self.state.slots.lock().owners();
        if owners.is_empty() {
            return Err(StoreError::new(StoreErrorKind::ClusterDown, "no server owns a slot"));
        }
        for owner in owners {
            // An unreachable one is retried when it is called.
            if let Ok(connection) = self.state.connection(&owner).await {
                self.state.counters.set_warnings(owner.to_string(), server_check::warnings(&connection).await);
            }
        }
        self.state.up.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn is_up(&self) -> bool {
        self.state.up.load(Ordering::Relaxed)
    }

    pub(super) async fn call(&self, invocation: &Invocation, until: Instant) -> Result<Value, StoreError> {
        let shared = &self.state;
        let slot = invocation.keys.first().map_or(0, |key| slot_of(key));
        let mut redirect: Option<(Arc<Address>, bool)> = None;
        let mut last = StoreError::new(StoreErrorKind::Moved, format!("slot {slot}"));
        for _ in 0..MAX_REDIRECTS {
            let (target, pending) = match redirect.take() {
                Some(redirect) => redirect,
                None => (shared.owner(slot).await?, false),
            };
            let connection = match shared.connection(&target).await {
                Ok(connection) => connection,
                Err(error) => {
                    shared.refresh_soon();
                    return Err(error);
                }
            };
            let error = match shared.await_reply(connection.run(invocation, pending)).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Server(ServerErrorKind::Moved) => {
                    let owner = redirect_target(&error, &target)?;
                    shared.slots.lock().set_owner(slot, owner.clone());
                    shared.refresh_soon();
                    redirect = Some((owner, false));
                }
                ErrorKind::Server(ServerErrorKind::Ask) => redirect = Some((redirect_target(&error, &target)?, true)),
                ErrorKind::Server(
                    ServerErrorKind::ReadOnly | ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown,
                ) => {
                    shared.refresh_soon();
                    sleep(RETRY_DELAY).await;
                }
                _ => {
                    let error = StoreError::from(error);
                    if error.kind == StoreErrorKind::Unreachable {
                        shared.drop_connection(&target, &connection).await;
                        shared.refresh_soon();
                    }
                    return Err(error);
                }
            }
            last = error.into();
            if Instant::now() >= until {
                break;
            }
        }
        Err(last)
    }
}

/// Target of a redirect.
fn redirect_target(error: &RedisError, source: &Address) -> Result<Arc<Address>, StoreError> {
    let target = error.redirect_node().and_then(|(node, _)| Address::parse(node, Some(&source.host)));
    target
        .map(Arc::new)
        .ok_or_else(|| StoreError::invalid_reply(format!("{source} redirects without a target: {error}")))
}

impl ClusterState {
    async fn owner(self: &Arc<Self>, slot: u16) -> Result<Arc<Address>, StoreError> {
        let known = self.slots.lock().owner(slot);
        if let Some(owner) = known {
            return Ok(owner);
        }
        self.refresh_slots().await?;
        let known = self.slots.lock().owner(slot);
        known.ok_or_else(|| StoreError::new(StoreErrorKind::ClusterDown, format!("no server owns slot {slot}")))
    }

    /// The connection to a primary, made if there is none.
    async fn connection(&self, address: &Arc<Address>) -> Result<Connection, StoreError> {
        let node = self.nodes.lock().entry(address.clone()).or_default().clone();
        let mut state = node.state.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        if let Some((at, error)) = &state.failed
            && at.elapsed() < REFRESH_INTERVAL
        {
            return Err(error.clone());
        }
        match self.connector.connect(address, Login::Store).await {
            Ok(connection) => {
                *state = NodeState { connection: Some(connection.clone()), failed: None };
                Ok(connection)
            }
            Err(error) => {
                *state = NodeState { connection: None, failed: Some((Instant::now(), error.clone())) };
                Err(error)
            }
        }
    }

    async fn drop_connection(&self, address: &Arc<Address>, failed: &Connection) {
        let node = self.nodes.lock().get(address).cloned();
        if let Some(node) = node {
            let mut state = node.state.lock().await;
            if state.connection.as_ref().is_some_and(|connection| connection.ptr_eq(failed)) {
                state.connection = None;
            }
        }
    }

    /// Awaits a reply. A hung server closes nothing, and its replica may have been promoted
    /// meanwhile: the slot map is refreshed while it is silent.
    async fn await_reply<T>(self: &Arc<Self>, reply: impl Future<Output = T>) -> T {
        let mut reply = pin!(reply);
        loop {
            match timeout(SILENCE_TIMEOUT, &mut reply).await {
                Ok(reply) => return reply,
                Err(_) => self.refresh_soon(),
            }
        }
    }

    /// Refreshes the slot map in the background.
    fn refresh_soon(self: &Arc<Self>) {
        let shared = self.clone();
        tokio::spawn(async move { shared.refresh_slots().await });
    }

    /// Refreshes the slot map from the first server that responds.
    async fn refresh_slots(&self) -> Result<(), StoreError> {
        let mut last_refresh_at = self.last_refresh.lock().await;
        if last_refresh_at.is_some_and(|at| at.elapsed() < REFRESH_INTERVAL) {
            return Ok(());
        }
        let mut candidates: Vec<Arc<Address>> = self.slots.lock().owners().into_iter().collect();
        candidates.extend(self.seeds.iter().cloned().map(Arc::new));
        let mut failed = StoreError::new(StoreErrorKind::Unreachable, "no node is configured");
        for address in candidates {
            match self.fetch_slots(&address).await {
                Ok(slots) => {
                    let owners = slots.owners();
                    *self.slots.lock() = slots;
                    // Connections to servers without slots are closed once their calls are done.
                    self.nodes.lock().retain(|address, _| owners.contains(address));
                    *last_refresh_at = Some(Instant::now());
                    return Ok(());
                }
                Err(error) => failed = error,
            }
        }
        *last_refresh_at = Some(Instant::now());
        Err(failed)
    }

    async fn fetch_slots(&self, address: &Arc<Address>) -> Result<SlotMap, StoreError> {
        let connection = self.connection(address).await?;
        SlotMap::parse(connection.command(&["CLUSTER", "SLOTS"]).await?, &address.host)
    }
}
