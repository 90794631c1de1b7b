//! The connections to the store, and who is called on which.
//!
//! ```text
//!  Link -- one primary --> Connection          single server, or where the sentinels say it is
//!       \- cluster ------> slot -> Connection  one per primary; MOVED and ASK end here
//! ```
//!
//! A call is sent once. It is sent again only where the server says that it ran nothing: the script was not
//! known, the slot is elsewhere. A connection that is lost under a call leaves open whether it ran, so that
//! call fails.

mod address;
mod cluster;
mod connection;
mod connector;
mod inspection;
mod primary;
mod sentinel;
mod slots;

use std::sync::Arc;
use std::time::Instant;

use redis::Value;

use self::address::Address;
use self::cluster::ClusterLink;
use self::connector::Connector;
use self::primary::{Place, PrimaryLink};
use crate::error::{StartError, StoreError, StoreErrorKind, Weight};
use crate::health::SharedCounters;
use crate::invocation::{Invocation, Script};
use crate::options::{StoreOptions, Topology};

/// Called when a connection is lost while nobody uses it.
pub(crate) type Alarm = Arc<dyn Fn(&StoreError) + Send + Sync>;

/// The way to the store.
pub(crate) struct Link(Kind);

enum Kind {
    Primary(Box<PrimaryLink>),
    Cluster(ClusterLink),
}

impl Link {
    /// A link that is not connected yet.
    pub(crate) fn new(
        options: &StoreOptions,
        scripts: Vec<&'static Script>,
        counters: SharedCounters,
    ) -> Result<Self, StartError> {
        let read = |node: &String| Address::parse(node, None).ok_or_else(|| StartError::Node(node.clone()));
        let nodes: Vec<_> = options.nodes.iter().map(read).collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            return Err(StartError::NoNodes);
        }
        let connector = Connector::new(options, scripts)?;
        Ok(Self(match &options.topology {
            Topology::Single => Kind::Primary(Box::new(PrimaryLink::new(connector, Place::OneOf(nodes), counters))),
            Topology::Sentinel(name) => {
                let place = Place::Sentinels { name: name.clone(), sentinels: nodes };
                Kind::Primary(Box::new(PrimaryLink::new(connector, place, counters)))
            }
            Topology::Cluster if options.database != 0 => return Err(StartError::Database(options.database)),
            Topology::Cluster => Kind::Cluster(ClusterLink::new(connector, nodes, counters)),
        }))
    }

    /// Makes all connections anew. Those that calls still wait on live until these are done.
    pub(crate) async fn connect(&self, alarm: &Alarm) -> Result<(), StoreError> {
        match &self.0 {
            Kind::Primary(link) => link.connect(alarm).await,
            Kind::Cluster(link) => link.connect().await,
        }
    }

    /// Whether there is a connection, working or not.
    pub(crate) fn is_up(&self) -> bool {
        match &self.0 {
            Kind::Primary(link) => link.is_up(),
            Kind::Cluster(link) => link.is_up(),
        }
    }

    /// Gives up a connection to a server that is not the primary any more, as far as others know.
    pub(crate) async fn verify(&self) -> Result<(), StoreError> {
        match &self.0 {
            Kind::Primary(link) => link.verify().await,
            Kind::Cluster(_) => Ok(()),
        }
    }

    /// Calls a script. A call that was turned away without having run is sent again, but not after `until`. One
    /// whose keys stand on both sides of a slot on the move is left to the caller: each alone may pass.
    pub(crate) async fn call(&self, invocation: &Invocation, until: Instant) -> Result<Value, StoreError> {
        match &self.0 {
            Kind::Primary(link) => link.call(invocation).await,
            Kind::Cluster(link) => link.call(invocation, until).await,
        }
    }

    /// What such an error says about the store as a whole. One server of many is not the store.
    pub(crate) const fn weight(&self, kind: StoreErrorKind) -> Weight {
        match (&self.0, kind.weight()) {
            (Kind::Cluster(_), Weight::Decides) => Weight::Counts,
            (_, weight) => weight,
        }
    }

    /// Whether asks of different slots must go in different calls.
    pub(crate) const fn has_slots(&self) -> bool {
        matches!(self.0, Kind::Cluster(_))
    }
}
