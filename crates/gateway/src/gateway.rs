//! A gateway from its settings to its end.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sluicegate_config::settings::{self, Settings};
use sluicegate_door::{DoorError, DoorHandle, Doorway, FrontDoor};
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::Renderer;
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::sync::watch;

use crate::identity::{self, IdentityError};
use crate::listen::{self, CertificateError, Entrance, EntranceError, ListenError, Renewal};
use crate::log::{AccessLog, LogError};
use crate::places;
use crate::process::Process;
use crate::restart::{self, Notice, RestartError};
use crate::route::{RouteError, Router};
use crate::shared::Shared;
use crate::thread::{Report, Stop, Thread};
use crate::upstream::{UpstreamError, UpstreamStatus, Upstreams};

/// How many connections the kernel may hold at each socket that nobody has taken yet.
const BACKLOG: u32 = 1_024;

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
    process: Process,
    /// For each listener of the settings, its sockets and what stands behind them.
    listeners: Vec<(Vec<TcpListener>, Arc<Entrance>)>,
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
        mut process: Process,
    ) -> Result<Self, GatewayError> {
        let clock: ClockHandle = sluice.clock().clone();
        let doorway = doorway(gateway, &clock)?;
        let upstreams = Upstreams::new(&gateway.upstreams, base, &clock)?;
        let forwarding = identity::forwarding(gateway);
        let entrances = gateway.listen.iter().map(|it| Entrance::new(it, forwarding.trusted(), base).map(Arc::new));
        let entrances = entrances.collect::<Result<Vec<_>, _>>()?;
        let shared = Arc::new(Shared {
            router: Router::new(&gateway.routes)?,
            places: places::of(gateway, &upstreams),
            renderer: Renderer::new(settings.headers),
            sources: identity::attributes(gateway, base, &clock)?,
            workers: doorway.workers(),
            log: gateway.access_log.as_ref().map(AccessLog::open).transpose()?,
            timeouts: gateway.timeouts,
            forwarding,
            clock,
            sluice,
            upstreams,
        });
        let threads = gateway.threads.and_then(|threads| NonZeroUsize::new(threads as usize)).unwrap_or_else(cores);
        let addresses: Vec<SocketAddr> = gateway.listen.iter().map(|listener| listener.address).collect();
        let sockets = listen::open(&addresses, threads, BACKLOG, std::mem::take(&mut process.inherited))?;
        Ok(Self { shared, doorway, process, listeners: sockets.into_iter().zip(entrances).collect(), threads })
    }

    /// Serves, on threads of its own. `tell` hears what an operator should know, a line at a time.
    pub fn start(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Result<Running, GatewayError> {
        let (stop, stopped) = watch::channel(Stop::default());
        let local = |(sockets, _): &(Vec<TcpListener>, _)| sockets.first().and_then(|it| it.local_addr().ok());
        let addresses = self.listeners.iter().filter_map(local).collect();
        let entrances: Vec<_> = self.listeners.iter().map(|(_, entrance)| Arc::clone(entrance)).collect();
        let mut given: Vec<Vec<(TcpListener, Arc<Entrance>)>> = (0..self.threads.get()).map(|_| Vec::new()).collect();
        let mut kept = Vec::new();
        for (sockets, entrance) in self.listeners {
            for (number, socket) in sockets.into_iter().enumerate() {
                kept.push(socket.try_clone().map_err(GatewayError::Thread)?);
                given[number % self.threads].push((socket, Arc::clone(&entrance)));
            }
        }
        let mut threads = Vec::new();
        let mut watching = Some((entrances.clone(), tell));
        for (number, sockets) in given.into_iter().enumerate() {
            let (shared, doorway, stopped) = (Arc::clone(&self.shared), self.doorway.clone(), stopped.clone());
            let runtime = Builder::new_current_thread().enable_all().build().map_err(GatewayError::Thread)?;
            let watching = watching.take();
            let work = move || {
                runtime.block_on(async move {
                    if let Some((entrances, tell)) = watching {
                        watch_over(&shared, entrances, tell);
                    }
                    let doors = sockets.into_iter().filter_map(|(socket, entrance)| {
                        // What listens on one thread only fails where nothing would work.
                        let listener = tokio::net::TcpListener::from_std(socket).ok()?;
                        Some((doorway.at(listener), entrance))
                    });
                    Thread::new(shared).run(doors.collect(), stopped).await
                })
            };
            let named = thread::Builder::new().name(format!("gateway-{number}"));
            threads.push(named.spawn(work).map_err(GatewayError::Thread)?);
        }
        // Where nobody hears it, the gateway serves all the same.
        drop(self.process.notices.tell(Notice::Ready));
        let (shared, process, door) = (self.shared, self.process, self.doorway.handle());
        Ok(Running { shared, process, door, addresses, entrances, sockets: kept, stop, threads })
    }
}

/// Looks after servers and certificates, beside the serving.
fn watch_over(shared: &Arc<Shared>, entrances: Vec<Arc<Entrance>>, tell: impl Fn(&str) + Send + Sync + 'static) {
    let (tell, of_health) = (Arc::new(tell), Arc::clone(shared));
    tokio::spawn(async move { of_health.upstreams.watch_health().await });
    for entrance in entrances {
        let (tell, clock) = (Arc::clone(&tell), shared.clock.clone());
        tokio::spawn(async move {
            let hear = |renewal| match renewal {
                Ok(Renewal::Renewed) => tell("the certificate was renewed"),
                Ok(Renewal::Unchanged) => {}
                Err(error) => tell(&format!("the certificate stays as it was: {error}")),
            };
            entrance.watch(&clock, hear).await;
        });
    }
}

/// A gateway that serves.
pub struct Running {
    shared: Arc<Shared>,
    process: Process,
    door: DoorHandle,
    addresses: Vec<SocketAddr>,
    entrances: Vec<Arc<Entrance>>,
    /// To be handed over.
    sockets: Vec<TcpListener>,
    stop: watch::Sender<Stop>,
    threads: Vec<JoinHandle<Report>>,
}

impl Running {
    /// Where it listens, in the order of the settings.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What has happened at the door.
    pub const fn door(&self) -> &DoorHandle {
        &self.door
    }

    /// How the upstreams fare.
    pub fn upstreams(&self) -> Vec<UpstreamStatus> {
        self.shared.upstreams.status()
    }

    /// The rules in force.
    pub fn sluice(&self) -> &Sluice {
        &self.shared.sluice
    }

    /// Opens the access log anew, for whoever has renamed its file.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.shared.log {
            log.reopen();
        }
    }

    /// How the access log fares: lines lost because the disk was too slow, and writes that failed.
    pub fn log_losses(&self) -> (u64, u64) {
        self.shared.log.as_ref().map_or((0, 0), |log| (log.lost(), log.failures()))
    }

    /// Reads all certificates again. Those that are bad are told of, and stay as they were.
    pub async fn reload_certificates(&self) -> Vec<CertificateError> {
        // Where nobody hears it, they are read all the same.
        drop(self.process.notices.tell(Notice::Reloading));
        let mut bad = Vec::new();
        for entrance in &self.entrances {
            bad.extend(entrance.reload().await.err());
        }
        drop(self.process.notices.tell(Notice::Ready));
        bad
    }

    /// Starts this program anew at the same sockets, with what the rules remember at this moment. Once the new process serves, this one is to be
    /// [stopped](Self::hand_over); if it does not, this one goes on.
    pub async fn follow(&self) -> Result<u32, RestartError> {
        let Some(program) = &self.process.program else { return Err(RestartError::Unnamed) };
        let (notices, clock) = (&self.process.notices, &self.shared.clock);
        let remembered = self.shared.sluice.save().to_bytes();
        let successor = restart::take_over(program, &self.sockets, notices, &remembered, clock).await?;
        Ok(successor.process)
    }

    /// Stops for good: nobody new is let in, those who wait are told, requests under way are answered.
    pub fn stop(self) -> Report {
        drop(self.process.notices.tell(Notice::Stopping));
        self.end(Stop::Close)
    }

    /// Stops in favour of another process at the same sockets: who waits there is its.
    pub fn hand_over(self) -> Report {
        self.end(Stop::HandOver)
    }

    fn end(self, how: Stop) -> Report {
        drop(self.sockets);
        self.stop.send_replace(how);
        let reports = self.threads.into_iter().map(|thread| thread.join().unwrap_or_default());
        reports.fold(Report::default(), |all, of_thread| Report {
            finished: all.finished + of_thread.finished,
            aborted: all.aborted + of_thread.aborted,
        })
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

fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
