//! A gateway from its settings to its end.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_config::settings::{self, Settings};
use sluicegate_door::{DoorError, DoorHandle, Doorway, FrontDoor};
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::Renderer;
use sluicegate_listen::{
    CertificateError, Entrance, EntranceError, Idle, ListenError, Process, Report, Socket, Stop, Tell, Threads, cores,
    reload_certificates, spread, watch_certificates,
};
use thiserror::Error;

use crate::identity::{self, IdentityError};
use crate::log::{AccessLog, LogError};
use crate::neighbours::Neighbours;
use crate::places;
use crate::route::{RouteError, Router};
use crate::shared::Shared;
use crate::tally::Tallies;
use crate::thread::Thread;
use crate::upstream::{UpstreamError, UpstreamStatus, Upstreams};

/// How long idle connections are kept when the gateway stops, for requests that are on their way.
const PARTING: Duration = Duration::from_secs(1);

/// Why a gateway cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Routes that cannot be.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// An upstream that cannot be.
    #[error(transparent)]
    Upstream(#[from] UpstreamError),
    /// Clients that cannot be told apart as asked for.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Bounds that make no sense.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// An address that cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A way in that cannot be.
    #[error(transparent)]
    Entrance(#[from] EntranceError),
    /// An access log that cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A thread that cannot be had.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A gateway that listens, and does not serve yet.
pub struct Gateway {
    shared: Arc<Shared>,
    doorway: Doorway,
    /// For each listener of the settings, its sockets and what stands behind them.
    listeners: Vec<(Vec<Socket>, Arc<Entrance>)>,
    threads: NonZeroUsize,
}

impl Gateway {
    /// Opens a gateway as the settings say: its sockets are open, and everything that can be wrong is found.
    /// `base` is the folder that files are looked up from.
    pub fn open(
        settings: &Settings,
        gateway: &settings::Gateway,
        sluice: Sluice,
        base: &Path,
        process: &mut Process,
    ) -> Result<Self, GatewayError> {
        let clock: ClockHandle = sluice.clock().clone();
        let doorway = doorway(gateway, &clock)?;
        let upstreams = Upstreams::new(&gateway.upstreams, base, &clock)?;
        let forwarding = identity::forwarding(gateway);
        let entrances = gateway.listen.iter().map(|it| Entrance::new(it, forwarding.trusted(), base).map(Arc::new));
        let entrances = entrances.collect::<Result<Vec<_>, _>>()?;
        let threads = gateway.threads.and_then(|threads| NonZeroUsize::new(threads as usize)).unwrap_or_else(cores);
        let shared = Arc::new(Shared {
            router: Router::new(&gateway.routes)?,
            places: places::of(gateway, &upstreams),
            renderer: Renderer::new(settings.headers),
            sources: identity::attributes(gateway, base, &clock)?,
            workers: doorway.workers(),
            log: gateway.access_log.as_ref().map(AccessLog::open).transpose()?,
            timeouts: gateway.timeouts,
            neighbours: Neighbours::new(threads.get()),
            tallies: Tallies::default(),
            longest_head: gateway.max_head as usize,
            forwarding,
            clock,
            sluice,
            upstreams,
        });
        let addresses: Vec<SocketAddr> = gateway.listen.iter().map(|listener| listener.address).collect();
        let sockets = process.listen(&addresses, threads)?;
        Ok(Self { shared, doorway, listeners: sockets.into_iter().zip(entrances).collect(), threads })
    }

    /// How it fares, from now on.
    pub fn vitals(&self) -> Vitals {
        Vitals { shared: Arc::clone(&self.shared), door: self.doorway.handle() }
    }

    /// Serves, on threads of its own. `tell` hears what an operator should know, a line at a time.
    pub fn start(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Result<Running, GatewayError> {
        self.start_telling(Arc::new(tell))
    }

    fn start_telling(self, tell: Tell) -> Result<Running, GatewayError> {
        let addresses = self.listeners.iter().filter_map(|(sockets, _)| sockets.first()?.address()).collect();
        let entrances: Vec<_> = self.listeners.iter().map(|(_, entrance)| Arc::clone(entrance)).collect();
        let watching = Arc::new(Mutex::new(Some((entrances.clone(), tell))));
        let shared = Arc::clone(&self.shared);
        let work = move |number, doors, stopped| {
            let shared = Arc::clone(&shared);
            // The first thread looks after what is not done for any one client.
            if let Some((entrances, tell)) = watching.lock().take() {
                watch_over(&shared, &entrances, &tell);
            }
            Thread::new(shared, number).run(doors, stopped)
        };
        let threads =
            Threads::start("gateway", spread(self.listeners, self.threads), &self.doorway, Idle::Sleeps, work);
        let threads = threads.map_err(GatewayError::Thread)?;
        let vitals = Vitals { shared: self.shared, door: self.doorway.handle() };
        Ok(Running { vitals, addresses, entrances, threads })
    }
}

/// Looks after servers and certificates, beside the serving.
fn watch_over(shared: &Arc<Shared>, entrances: &[Arc<Entrance>], tell: &Tell) {
    let of_health = Arc::clone(shared);
    tokio::spawn(async move { of_health.upstreams.watch_health().await });
    watch_certificates(entrances, &shared.clock, tell);
}

/// How a gateway fares, for whoever watches over it. Clones are of the same gateway.
#[derive(Clone)]
pub struct Vitals {
    shared: Arc<Shared>,
    door: DoorHandle,
}

impl Vitals {
    /// What has happened at the door.
    pub const fn door(&self) -> &DoorHandle {
        &self.door
    }

    /// How the upstreams fare.
    pub fn upstreams(&self) -> Vec<UpstreamStatus> {
        self.shared.upstreams.status()
    }

    /// Requests under way now.
    pub fn under_way(&self) -> u64 {
        self.shared.tallies.sum().0
    }

    /// Requests answered so far, by the class of their status: 1xx first, 5xx last.
    pub fn answered(&self) -> [u64; 5] {
        self.shared.tallies.sum().1
    }

    /// Connections that have moved to another thread so far, to be nearer to their clients.
    pub fn moved(&self) -> u64 {
        self.shared.neighbours.moved()
    }

    /// How the access log fares, if there is one: lines lost because the disk was too slow, and writes that failed.
    pub fn log_losses(&self) -> Option<(u64, u64)> {
        self.shared.log.as_ref().map(|log| (log.lost(), log.failures()))
    }
}

/// A gateway that serves.
pub struct Running {
    vitals: Vitals,
    addresses: Vec<SocketAddr>,
    entrances: Vec<Arc<Entrance>>,
    threads: Threads,
}

impl Running {
    /// Where it listens, in the order of the settings.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// How it fares.
    pub const fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    /// The rules in force.
    pub fn sluice(&self) -> &Sluice {
        &self.vitals.shared.sluice
    }

    /// Opens the access log anew, for whoever has renamed its file.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.vitals.shared.log {
            log.reopen();
        }
    }

    /// Reads all certificates again. Those that are bad are told of, and stay as they were.
    pub async fn reload_certificates(&self) -> Vec<CertificateError> {
        reload_certificates(&self.entrances).await
    }

    /// Stops: nobody new is let in, requests under way are answered, and all of them are in the access log.
    pub fn stop(self, how: Stop) -> Report {
        let report = self.threads.end(how);
        if let Some(log) = &self.vitals.shared.log {
            log.end();
        }
        report
    }
}

fn doorway(gateway: &settings::Gateway, clock: &ClockHandle) -> Result<Doorway, DoorError> {
    let settings::Connections { max, queue, per_client } = gateway.connections;
    let timeouts = gateway.timeouts;
    let mut door = FrontDoor::builder()
        .max_connections(max as usize)
        .queue(queue as usize)
        .header_deadline(timeouts.head)
        .keep_alive(timeouts.idle)
        .send_deadline(timeouts.send)
        .parting(PARTING)
        .header_bytes(gateway.max_head as usize)
        .tunnels(false)
        .clock(clock.clone());
    if let Some(per_client) = per_client {
        door = door.per_client(per_client as usize);
    }
    if let Some(in_flight) = gateway.in_flight {
        door = door.in_flight(in_flight as usize);
    }
    door.doorway()
}
