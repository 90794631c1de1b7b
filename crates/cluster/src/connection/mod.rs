//! Connections to the store, and routing of calls to them.
//!
//! ```text
//!  StoreConnection -- one primary --> Connection          single server, or the Sentinel primary
//!                  \- cluster ------> slot -> Connection  one per primary; MOVED and ASK are handled here
//! ```
//!
//! A call is sent once. It is sent again only if the server reports that it ran nothing: the script was
//! unknown, or the slot is elsewhere. If a connection is lost during a call, it is unknown if the call ran, so
//! that call fails.

mod address;
mod cluster;
mod connector;
mod multiplexed;
mod primary;
mod sentinel;
mod server_check;
mod slots;

use std::sync::Arc;
use std::time::Instant;

use redis::Value;

use self::address::Address;
use self::cluster::ClusterConnection;
use self::connector::Connector;
use self::primary::{PrimaryConnection, PrimarySource};
use crate::error::{BreakerEffect, StartError, StoreError, StoreErrorKind};
use crate::health::SharedCounters;
use crate::invocation::{Invocation, Script};
use crate::options::{StoreOptions, Topology};

/// Called when an idle connection is lost.
pub(crate) type OnDisconnect = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// The connection to the store, in any topology.
pub(crate) struct StoreConnection(ConnectionKind);

enum ConnectionKind {
    Primary(Box<PrimaryConnection>),
    Cluster(ClusterConnection),
}

impl StoreConnection {
    /// Creates an unconnected instance.
    pub(crate) fn new(
        options: &StoreOptions,
        scripts: Vec<&'static Script>,
        counters: SharedCounters,
    ) -> Result<Self, StartError> {
        let read = |node: &String| Address::parse(node, None).ok_or_else(|| StartError::InvalidNode(node.clone()));
        let nodes: Vec<_> = options.nodes.iter().map(read).collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            return Err(StartError::NoNodes);
        }
        let connector = Connector::new(options, scripts)?;
        Ok(Self(match &options.topology {
            Topology::Single => ConnectionKind::Primary(Box::new(PrimaryConnection::new(
                connector,
                PrimarySource::FirstOf(nodes),
                counters,
            ))),
            Topology::Sentinel(name) => {
                let source = PrimarySource::Sentinels { name: name.clone(), sentinels: nodes };
                ConnectionKind::Primary(Box::new(PrimaryConnection::new(connector, source, counters)))
            }
            Topology::Cluster if options.database != 0 => return Err(StartError::Database(options.database)),
            Topology::Cluster => ConnectionKind::Cluster(ClusterConnection::new(connector, nodes, counters)),
        }))
    }

    /// Reconnects everything. Old connections live until their calls are done.
    pub(crate) async fn connect(&self, on_disconnect: &OnDisconnect) -> Result<(), StoreError> {
        match &self.0 {
            ConnectionKind::Primary(connection) => connection.connect(on_disconnect).await,
            ConnectionKind::Cluster(connection) => connection.connect().await,
        }
    }

    /// True if there is a connection, working or not.
    pub(crate) fn is_up(&self) -> bool {
        match &self.0 {
            ConnectionKind::Primary(connection) => connection.is_up(),
            ConnectionKind::Cluster(connection) => connection.is_up(),
        }
    }

    /// Drops a connection to a server that is no longer the primary according to the sentinels.
    pub(crate) async fn verify(&self) -> Result<(), StoreError> {
        match &self.0 {
            ConnectionKind::Primary(connection) => connection.verify().await,
            ConnectionKind::Cluster(_) => Ok(()),
        }
    }

    /// Calls a script. A call that was rejected without having run is sent again, but not after `until`. A call
    /// with keys split by a slot migration is left to the caller: each key alone may succeed.
    pub(crate) async fn call(&self, invocation: &Invocation, until: Instant) -> Result<Value, StoreError> {
        match &self.0 {
            ConnectionKind::Primary(connection) => connection.call(invocation).await,
            ConnectionKind::Cluster(connection) => connection.call(invocation, until).await,
        }
    }

    /// Breaker effect of an error. In a Redis Cluster, one failed server does not trip the breaker.
    pub(crate) const fn breaker_effect(&self, kind: StoreErrorKind) -> BreakerEffect {
        match (&self.0, kind.breaker_effect()) {
            (ConnectionKind::Cluster(_), BreakerEffect::Trip) => BreakerEffect::Count,
            (_, weight) => weight,
        }
    }

    /// True if items of different slots need separate calls.
    pub(crate) const fn has_slots(&self) -> bool {
        matches!(self.0, ConnectionKind::Cluster(_))
    }
}
