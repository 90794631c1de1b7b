//! One thread of the gateway: a runtime, listeners, and connections of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_door::{Connection, FrontDoor, Host, Late};
use sluicegate_listen::{Entrance, Guests, Report, Stop, Stream, serve_until};
use tokio::sync::watch;

use crate::alarm::LazyAlarm;
use crate::client::Client;
use crate::head::Origin;
use crate::inbound::{Dormitory, Visit};
use crate::lane::Lane;
use crate::log::LogThread;
use crate::log::request_id::RequestIds;
use crate::neighbours::Neighbour;
use crate::shared::Shared;
use crate::tally::Tally;

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
    /// What it has answered.
    pub(crate) tally: Arc<Tally>,
    /// Its connections.
    pub(crate) guests: Guests,
    /// Which of the gateway's threads it is.
    pub(crate) number: usize,
}

/// The access log as one thread has it.
pub(crate) struct ThreadLog {
    pub(crate) lines: LogThread,
    pub(crate) ids: RequestIds,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> Arc<Self> {
        let lanes = shared.upstreams.all().iter().map(|it| Lane::new(Arc::clone(it), shared.clock.clone())).collect();
        let log = shared.log.as_ref().map(|log| ThreadLog { lines: log.thread(), ids: RequestIds::new() });
        let tally = shared.tallies.add();
        Arc::new(Self { shared, lanes, log, tally, guests: Guests::default(), number })
    }

    /// This thread, as others see it.
    pub(crate) fn itself(&self) -> &Neighbour {
        self.shared.neighbours.at(self.number)
    }

    /// Where its connections sleep; `None` where the system has no such place.
    pub(crate) fn dormitory(&self) -> Option<&Dormitory> {
        self.itself().dormitory.as_ref()
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
        self.guests.spawn_staff(Dormitory::attend(Arc::clone(&self), stop.clone()));
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
        let (thread, entrance, host) = (Arc::clone(self), Arc::clone(entrance), Arc::clone(host));
        let clock = self.shared.clock.clone();
        let since = clock.now();
        let peer = connection.peer_addr();
        if entrance.is_plain() {
            let visit = Visit::new(Stream::Plain(connection), thread.client(peer, false), host, closed, since);
            self.guests.spawn(visit.serve(None));
            return;
        }
        self.guests.spawn(async move {
            // On the heap: a handshake is large, and soon over.
            let deadline = since + host.patience().head;
            let mut alarm = LazyAlarm::new(clock);
            match Box::pin(alarm.within(deadline, entrance.enter(connection, peer))).await {
                None => host.closed_late(Late::Head),
                // Whoever cannot get in is nobody's client: there is nothing to answer with.
                Some(Err(_)) => {}
                Some(Ok(entered)) => {
                    let client = thread.client(entered.client, entrance.is_encrypted());
                    Visit::new(entered.stream, client, host, closed, since).serve(entered.http2).await;
                }
            }
        });
    }

    /// A client of this thread.
    pub(crate) fn client(self: &Arc<Self>, address: SocketAddr, tls: bool) -> Arc<Client> {
        Client::new(Arc::clone(self), Origin::new(address, &self.shared.forwarding, tls))
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
