//! The link to a Redis Cluster: a connection to each primary, and the way from slot to primary.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::connection::Connection;
use super::connector::{Connector, Login};
use super::inspection;
use super::slots::Slots;
use crate::error::{StoreError, StoreErrorKind};
use crate::health::{Counters, SharedCounters};
use crate::invocation::Invocation;
use crate::slot::slot_of;

/// How often a call follows where servers point.
const HOPS: u32 = 64;
/// How long to wait where a server says "not now".
const NOT_NOW: Duration = Duration::from_millis(2);
/// How long a server that could not be reached is left alone, and the least time between two looks at who
/// owns what.
const PAUSE: Duration = Duration::from_millis(100);
/// A server that is silent for so long may not own its slots any more.
const SILENCE: Duration = Duration::from_millis(250);

pub(super) struct ClusterLink {
    shared: Arc<Shared>,
}

struct Shared {
    connector: Connector,
    seeds: Vec<Address>,
    slots: Mutex<Slots>,
    nodes: Mutex<HashMap<Arc<Address>, Arc<Node>>>,
    /// When the owners were last asked for; held while they are.
    looked: tokio::sync::Mutex<Option<Instant>>,
    up: AtomicBool,
    counters: SharedCounters,
}

/// One primary.
#[derive(Default)]
struct Node {
    /// Held while a connection is made: never two at once.
    state: tokio::sync::Mutex<NodeState>,
}

#[derive(Default)]
struct NodeState {
    connection: Option<Connection>,
    failed: Option<(Instant, StoreError)>,
}

impl ClusterLink {
    pub(super) fn new(connector: Connector, seeds: Vec<Address>, counters: SharedCounters) -> Self {
        let shared = Shared {
            connector,
            seeds,
            slots: Mutex::new(Slots::unknown()),
            nodes: Mutex::default(),
            looked: tokio::sync::Mutex::new(None),
            up: AtomicBool::new(false),
            counters,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Forgets all connections, learns who owns what, and connects to each.
    pub(super) async fn connect(&self) -> Result<(), StoreError> {
        if self.is_up() {
            Counters::add(&self.shared.counters.reconnects, 1);
        }
        self.shared.nodes.lock().clear();
        *self.shared.looked.lock().await = None;
        self.shared.look().await?;
        let owners = self.shared.slots.lock().owners();
        if owners.is_empty() {
            return Err(StoreError::new(StoreErrorKind::ClusterDown, "no server owns a slot"));
        }
        for owner in owners {
            // One that cannot be reached now is tried again when it is called.
            if let Ok(connection) = self.shared.connection(&owner).await {
                self.shared.counters.warn(owner.to_string(), inspection::warnings(&connection).await);
            }
        }
        self.shared.up.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn is_up(&self) -> bool {
        self.shared.up.load(Ordering::Relaxed)
    }

    pub(super) async fn call(&self, invocation: &Invocation, until: Instant) -> Result<Value, StoreError> {
        let shared = &self.shared;
        let slot = invocation.keys.first().map_or(0, |key| slot_of(key));
        let mut elsewhere: Option<(Arc<Address>, bool)> = None;
        let mut last = StoreError::new(StoreErrorKind::Moved, format!("slot {slot}"));
        for _ in 0..HOPS {
            let (target, asking) = match elsewhere.take() {
                Some(elsewhere) => elsewhere,
                None => (shared.owner(slot).await?, false),
            };
            let connection = match shared.connection(&target).await {
                Ok(connection) => connection,
                Err(error) => {
                    shared.look_soon();
                    return Err(error);
                }
            };
            let error = match shared.heard(connection.run(invocation, asking)).await {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Server(ServerErrorKind::Moved) => {
                    let owner = redirected(&error, &target)?;
                    shared.slots.lock().moved(slot, owner.clone());
                    shared.look_soon();
                    elsewhere = Some((owner, false));
                }
                ErrorKind::Server(ServerErrorKind::Ask) => elsewhere = Some((redirected(&error, &target)?, true)),
                ErrorKind::Server(
                    ServerErrorKind::ReadOnly | ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown,
                ) => {
                    shared.look_soon();
                    sleep(NOT_NOW).await;
                }
                _ => {
                    let error = StoreError::from(error);
                    if error.kind == StoreErrorKind::Unreachable {
                        shared.drop_connection(&target, &connection).await;
                        shared.look_soon();
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

/// Where the server says the slot is.
fn redirected(error: &RedisError, asked: &Address) -> Result<Arc<Address>, StoreError> {
    let pointed = error.redirect_node().and_then(|(node, _)| Address::parse(node, Some(&asked.host)));
    pointed.map(Arc::new).ok_or_else(|| StoreError::unintelligible(format!("{asked} points nowhere: {error}")))
}

impl Shared {
    async fn owner(self: &Arc<Self>, slot: u16) -> Result<Arc<Address>, StoreError> {
        let known = self.slots.lock().owner(slot);
        if let Some(owner) = known {
            return Ok(owner);
        }
        self.look().await?;
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
            && at.elapsed() < PAUSE
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

    async fn drop_connection(&self, address: &Arc<Address>, lost: &Connection) {
        let node = self.nodes.lock().get(address).cloned();
        if let Some(node) = node {
            let mut state = node.state.lock().await;
            if state.connection.as_ref().is_some_and(|connection| connection.is(lost)) {
                state.connection = None;
            }
        }
    }

    /// Waits for an answer. A server that hangs says nothing and closes nothing, and its replica may have taken over
    /// meanwhile: that is looked for while it is silent.
    async fn heard<T>(self: &Arc<Self>, reply: impl Future<Output = T>) -> T {
        let mut reply = pin!(reply);
        loop {
            match timeout(SILENCE, &mut reply).await {
                Ok(reply) => return reply,
                Err(_) => self.look_soon(),
            }
        }
    }

    /// Learns who owns what, in the background.
    fn look_soon(self: &Arc<Self>) {
        let shared = self.clone();
        tokio::spawn(async move { shared.look().await });
    }

    /// Learns who owns what, from the first server that says.
    async fn look(&self) -> Result<(), StoreError> {
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at| at.elapsed() < PAUSE) {
            return Ok(());
        }
        let mut candidates: Vec<Arc<Address>> = self.slots.lock().owners().into_iter().collect();
        candidates.extend(self.seeds.iter().cloned().map(Arc::new));
        let mut failed = StoreError::new(StoreErrorKind::Unreachable, "no node is named");
        for address in candidates {
            match self.look_at(&address).await {
                Ok(slots) => {
                    let owners = slots.owners();
                    *self.slots.lock() = slots;
                    // Connections to who owns nothing any more are closed when their calls are done.
                    self.nodes.lock().retain(|address, _| owners.contains(address));
                    *looked = Some(Instant::now());
                    return Ok(());
                }
                Err(error) => failed = error,
            }
        }
        *looked = Some(Instant::now());
        Err(failed)
    }

    async fn look_at(&self, address: &Arc<Address>) -> Result<Slots, StoreError> {
        let connection = self.connection(address).await?;
        Slots::read(connection.command(&["CLUSTER", "SLOTS"]).await?, &address.host)
    }
}
