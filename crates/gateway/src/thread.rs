//! One thread of the gateway: a runtime, listeners, and connections of its own.

use std::sync::Arc;
use std::time::Duration;

use sluicegate_door::{Connection, Entered, FrontDoor, Host};
use sluicegate_listen::{Entrance, Guests, Report, Stop, Stream, serve_until};
use tokio::sync::watch;

use crate::client::{Client, ClientService};
use crate::head::Origin;
use crate::lane::Lane;
use crate::log::LogThread;
use crate::log::request_id::RequestIds;
use crate::shared::Shared;

/// How often idle connections to servers are looked over.
const SWEEP: Duration = Duration::from_secs(1);

/// The same where somebody may wait for the room they take.
const SWEEP_BOUNDED: Duration = Duration::from_millis(20);

/// What one thread has to itself.
pub(crate) struct Thread {
    pub(crate) shared: Arc<Shared>,
    /// The ways to upstreams, by their numbers.
    pub(crate) lanes: Vec<Arc<Lane>>,
    /// Where its requests are noted, if anywhere.
    pub(crate) log: Option<ThreadLog>,
    /// Its connections, also those that have gone on in another protocol.
    guests: Guests,
}

/// The access log as one thread has it.
pub(crate) struct ThreadLog {
    pub(crate) lines: LogThread,
    pub(crate) ids: RequestIds,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let lanes = shared.upstreams.all().iter().map(|it| Lane::new(Arc::clone(it), shared.clock.clone())).collect();
        let log = shared.log.as_ref().map(|log| ThreadLog { lines: log.thread(), ids: RequestIds::new() });
        Arc::new(Self { shared, lanes, log, guests: Guests::default() })
    }

    /// Serves at all its listeners until told to stop, and then until everybody has been answered, or the time
    /// for that is up.
    pub(crate) async fn run(
        self: Arc<Self>,
        doors: Vec<(FrontDoor, Arc<Entrance>)>,
        stop: watch::Receiver<Stop>,
    ) -> Report {
        let sweeping = tokio::spawn(Arc::clone(&self).sweep());
        let (guests, clock, patience) = (&self.guests, &self.shared.clock, self.shared.timeouts.stop);
        let thread = Arc::clone(&self);
        let let_in = move |connection, entrance: &Arc<Entrance>, host: &Arc<Host>, closed: &watch::Receiver<()>| {
            thread.let_in(connection, entrance, host, closed.clone());
        };
        let report = serve_until(doors, guests, stop, (patience, clock), let_in).await;
        sweeping.abort();
        report
    }

    fn let_in(
        self: &Arc<Self>,
        connection: Connection,
        entrance: &Arc<Entrance>,
        host: &Arc<Host>,
        closed: watch::Receiver<()>,
    ) {
        let (thread, host, tls) = (Arc::clone(self), Arc::clone(host), entrance.is_encrypted());
        if entrance.is_plain() {
            let enter = |connection: Connection| {
                let client = connection.peer_addr();
                std::future::ready(Some(Entered { io: connection, client, is_http2: None }))
            };
            let service = move |entered: &Entered<Connection>| service(thread, entered.client, false);
            self.guests.spawn(host.host(connection, enter, service, closed));
        } else {
            let entrance = Arc::clone(entrance);
            let enter = |connection: Connection| async move {
                let peer = connection.peer_addr();
                // Whoever cannot get in is nobody's client: there is nothing to answer with.
                let entered = entrance.enter(connection, peer).await.ok()?;
                Some(Entered { io: entered.stream, client: entered.client, is_http2: entered.http2 })
            };
            let service = move |entered: &Entered<Stream<Connection>>| service(thread, entered.client, tls);
            self.guests.spawn(host.host(connection, enter, service, closed));
        }
    }

    /// Lets a connection that speaks another protocol live on.
    pub(crate) fn tunnel(&self, tunnel: impl Future<Output = ()> + Send + 'static) {
        self.guests.spawn(tunnel);
    }

    /// Closes connections to servers that nobody needs.
    async fn sweep(self: Arc<Self>) {
        let is_bounded = self.lanes.iter().any(|lane| lane.upstream().settings().connections.is_some());
        let every = if is_bounded { SWEEP_BOUNDED } else { SWEEP };
        loop {
            self.shared.clock.sleep(every).await;
            self.lanes.iter().for_each(|lane| lane.sweep());
        }
    }
}

fn service(thread: Arc<Thread>, client: std::net::SocketAddr, tls: bool) -> ClientService {
    let origin = Origin::new(client, &thread.shared.forwarding, tls);
    ClientService(Client::new(thread, origin))
}
