//! One thread of the gateway: a runtime, listeners, and connections of its own.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_door::{Connection, Entered, FrontDoor, Host};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::{Client, ClientService};
use crate::head::Origin;
use crate::lane::Lane;
use crate::listen::Entrance;
use crate::log::LogThread;
use crate::log::request_id::RequestIds;
use crate::shared::Shared;
use crate::stream::Stream;

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
    /// Connections that have gone on in another protocol.
    tunnels: Mutex<JoinSet<()>>,
}

/// The access log as one thread has it.
pub(crate) struct ThreadLog {
    pub(crate) lines: LogThread,
    pub(crate) ids: RequestIds,
}

/// How the gateway stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Stop {
    /// Not yet.
    #[default]
    Serve,
    /// Another process goes on at the same sockets: who waits there is its.
    HandOver,
    /// For good: who waits is told.
    Close,
}

/// How many connections there were at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// Connections that were open when the gateway began to stop, and ended by themselves.
    pub finished: usize,
    /// Connections that were cut off when the time was up.
    pub aborted: usize,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        let lanes = shared.upstreams.all().iter().map(|it| Lane::new(Arc::clone(it), shared.clock.clone())).collect();
        let log = shared.log.as_ref().map(|log| ThreadLog { lines: log.thread(), ids: RequestIds::new() });
        Arc::new(Self { shared, lanes, log, tunnels: Mutex::default() })
    }

    /// Serves at all its listeners until told to stop, and then until everybody has been answered, or the time
    /// for that is up.
    pub(crate) async fn run(
        self: Arc<Self>,
        doors: Vec<(FrontDoor, Arc<Entrance>)>,
        stop: watch::Receiver<Stop>,
    ) -> Report {
        let sweeping = tokio::spawn(Arc::clone(&self).sweep());
        let (closing, closed) = watch::channel(());
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let mut accepting = JoinSet::new();
        for (door, entrance) in doors {
            let gate = Gate {
                thread: Arc::clone(&self),
                entrance,
                closed: closed.clone(),
                connections: Arc::clone(&connections),
            };
            accepting.spawn(gate.accept(door, stop.clone()));
        }
        let mut stop = stop;
        // An error means that nobody is left who could say it.
        drop(stop.wait_for(|stop| *stop != Stop::Serve).await);
        while connections.lock().try_join_next().is_some() {}
        closing.send_replace(());
        let report = self.drain(accepting, &connections).await;
        sweeping.abort();
        report
    }

    /// Waits until all connections have ended, and cuts off those that take too long.
    async fn drain(&self, mut accepting: JoinSet<()>, connections: &Mutex<JoinSet<()>>) -> Report {
        let mut report = Report::default();
        let mut left = async || {
            // Those who waited in line at the door come in until it has closed.
            while accepting.join_next().await.is_some() {}
            report.finished += gone(connections).await + gone(&self.tunnels).await;
        };
        tokio::select! {
            biased;
            () = left() => {}
            () = self.shared.clock.sleep(self.shared.timeouts.stop) => {}
        }
        report.aborted = cut_off(connections).await + cut_off(&self.tunnels).await;
        report
    }

    /// Lets a connection that speaks another protocol live on.
    pub(crate) fn tunnel(&self, tunnel: impl Future<Output = ()> + Send + 'static) {
        let mut tunnels = self.tunnels.lock();
        while tunnels.try_join_next().is_some() {}
        tunnels.spawn(tunnel);
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

/// Waits for tasks to end, and answers how many did.
async fn gone(tasks: &Mutex<JoinSet<()>>) -> usize {
    let mut count = 0;
    while std::future::poll_fn(|context| tasks.lock().poll_join_next(context)).await.is_some() {
        count += 1;
    }
    count
}

/// Ends tasks, and answers how many there were.
async fn cut_off(tasks: &Mutex<JoinSet<()>>) -> usize {
    tasks.lock().abort_all();
    gone(tasks).await
}

/// Lets connections in at one listener.
struct Gate {
    thread: Arc<Thread>,
    entrance: Arc<Entrance>,
    closed: watch::Receiver<()>,
    connections: Arc<Mutex<JoinSet<()>>>,
}

impl Gate {
    async fn accept(self, mut door: FrontDoor, mut stop: watch::Receiver<Stop>) {
        let host = Arc::new(door.host());
        let stopped = loop {
            tokio::select! {
                biased;
                stopped = stop.wait_for(|stop| *stop != Stop::Serve) => break stopped.map_or(Stop::Close, |stop| *stop),
                connection = door.accept() => self.let_in(connection, &host),
            }
        };
        if stopped == Stop::Close {
            return door.close().await;
        }
        while let Some(connection) = door.next_waiting().await {
            self.let_in(connection, &host);
        }
    }

    fn let_in(&self, connection: Connection, host: &Arc<Host>) {
        let thread = Arc::clone(&self.thread);
        let tls = self.entrance.is_encrypted();
        let mut connections = self.connections.lock();
        while connections.try_join_next().is_some() {}
        let (host, closed) = (Arc::clone(host), self.closed.clone());
        if self.entrance.is_plain() {
            let enter = |connection: Connection| {
                let client = connection.peer_addr();
                std::future::ready(Some(Entered { io: connection, client, is_http2: None }))
            };
            let service = move |entered: &Entered<Connection>| service(thread, entered.client, false);
            connections.spawn(host.host(connection, enter, service, closed));
        } else {
            let entrance = Arc::clone(&self.entrance);
            let enter = |connection: Connection| async move {
                let peer = connection.peer_addr();
                // Whoever cannot get in is nobody's client: there is nothing to answer with.
                let entered = entrance.enter(connection, peer).await.ok()?;
                Some(Entered { io: entered.stream, client: entered.client, is_http2: entered.http2 })
            };
            let service = move |entered: &Entered<Stream<Connection>>| service(thread, entered.client, tls);
            connections.spawn(host.host(connection, enter, service, closed));
        }
    }
}

fn service(thread: Arc<Thread>, client: std::net::SocketAddr, tls: bool) -> ClientService {
    let origin = Origin::new(client, &thread.shared.forwarding, tls);
    ClientService(Client::new(thread, origin))
}
