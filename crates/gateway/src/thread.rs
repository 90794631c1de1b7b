//! One thread of the gateway: a runtime, listeners, and connections of its own.

use std::sync::Arc;

use sluicegate_door::{Connection, Entered, FrontDoor};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, ClientService};
use crate::head::Origin;
use crate::lane::Lane;
use crate::shared::Shared;

/// What one thread has to itself.
pub(crate) struct Thread {
    pub(crate) shared: Arc<Shared>,
    /// The ways to upstreams, by their numbers.
    pub(crate) lanes: Vec<Arc<Lane>>,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let lanes = shared.upstreams.all().iter().map(|it| Lane::new(Arc::clone(it), shared.clock.clone())).collect();
        Arc::new(Self { shared, lanes })
    }

    /// Serves at one listener until told to stop, and then until everybody has been answered.
    pub(crate) async fn serve(self: Arc<Self>, mut door: FrontDoor, mut stop: watch::Receiver<()>) {
        let host = Arc::new(door.host());
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                _ = stop.changed() => break,
                Some(_) = connections.join_next() => {}
                connection = door.accept() => {
                    let thread = Arc::clone(&self);
                    let service = move |entered: &Entered<Connection>| {
                        let origin = Origin::new(entered.client, &thread.shared.forwarding, false);
                        ClientService(Client::new(Arc::clone(&thread), origin))
                    };
                    let enter = |connection: Connection| async move {
                        let client = connection.peer_addr();
                        Some(Entered { io: connection, client, is_http2: None })
                    };
                    connections.spawn(Arc::clone(&host).host(connection, enter, service, stop.clone()));
                }
            }
        }
        while connections.join_next().await.is_some() {}
    }
}
