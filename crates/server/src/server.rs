//! A decision server from its settings to its end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_config::settings::{self, Settings};
use sluicegate_door::{DoorError, DoorHandle, Doorway, FrontDoor, Refusal};
use sluicegate_engine::Sluice;
use sluicegate_engine::adhoc::AdHocError;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::identity::TrustedProxies;
use sluicegate_listen::{
    CertificateError, Entrance, EntranceError, Guests, Idle, ListenError, Process, Report, Socket, Stop, Tell, Threads,
    cores, reload_certificates, serve_until, spread, watch_certificates,
};
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::sync::mpsc;

use crate::domains::DomainsInForce;
use crate::rls::LimitCounts;
use crate::secret::SecretError;
use crate::speaking::{Desk, Speaking};

/// How long idle connections are kept when the server stops, for requests that are on their way.
const PARTING: Duration = Duration::from_secs(1);

/// Why a decision server cannot run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// No protocol has a place.
    #[error("`server` serves nothing: give `rls`, `http` or `resp` an address, as in `http: 127.0.0.1:8082`")]
    Nothing,
    /// A secret that cannot be used.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// More keys than can be remembered.
    #[error("server.max_keys: {0}")]
    Keys(#[from] AdHocError),
    /// The service cannot be described to those who ask for it.
    #[error("the rate limit service cannot be described: {0}")]
    Description(#[from] tonic_reflection::server::Error),
    /// Bounds that make no sense.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// An address that cannot be listened at.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A way in that cannot be.
    #[error(transparent)]
    Entrance(#[from] EntranceError),
    /// A thread that cannot be had.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// What stands behind a socket: the way in, and what is spoken there.
#[derive(Clone)]
struct Behind {
    entrance: Arc<Entrance>,
    speaking: Speaking,
}

/// A decision server that listens, and does not serve yet.
pub struct Server {
    desk: Arc<Desk>,
    doorway: Doorway,
    listeners: Vec<(Vec<Socket>, Behind)>,
    threads: NonZeroUsize,
    patience: Duration,
    drain: Duration,
    busy_poll: Option<Duration>,
}

impl Server {
    /// Opens a server as the settings say: its sockets are open, and everything that can be wrong is found.
    /// `base` is the folder that files are looked up from.
    pub fn open(
        settings: &Settings,
        server: &settings::Server,
        sluice: Sluice,
        domains: DomainsInForce,
        base: &Path,
        process: &mut Process,
    ) -> Result<Self, ServerError> {
        if Speaking::services(server).next().is_none() {
            return Err(ServerError::Nothing);
        }
        let doorway = doorway(server, sluice.clock())?;
        let threads = server.threads.and_then(|threads| NonZeroUsize::new(threads as usize)).unwrap_or_else(cores);
        let desk = on_the_spot(Desk::new(settings, server, sluice, domains, base)).map_err(ServerError::Thread)??;
        let desk = Arc::new(desk);
        let mut listeners = Vec::new();
        for (service, speaking) in Speaking::services(server) {
            if let Some(address) = service.address {
                let listener = settings::Listener { address, tls: service.tls.clone(), proxy_protocol: false };
                let entrance = Arc::new(Entrance::new(&listener, &TrustedProxies::none(), base)?);
                let sockets = process.listen(&[address], threads)?.into_iter().flatten().collect();
                listeners.push((sockets, Behind { entrance, speaking }));
            }
            if let Some(path) = &service.unix {
                let entrance = Arc::new(Entrance::plain());
                listeners.push((process.listen_unix(&base.join(path), threads)?, Behind { entrance, speaking }));
            }
        }
        let (patience, drain, busy_poll) = (server.timeouts.stop, server.drain, server.busy_poll);
        Ok(Self { desk, doorway, listeners, threads, patience, drain, busy_poll })
    }

    /// How it fares, from now on.
    pub fn vitals(&self) -> Vitals {
        Vitals { desk: Arc::clone(&self.desk), door: self.doorway.handle() }
    }

    /// Serves, on threads of its own. `tell` hears what an operator should know, a line at a time.
    pub fn start(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Result<Running, ServerError> {
        self.start_telling(Arc::new(tell))
    }

    fn start_telling(self, tell: Tell) -> Result<Running, ServerError> {
        let Self { desk, doorway, listeners, threads, patience, drain, busy_poll } = self;
        let addresses =
            listeners.iter().map(|(sockets, _)| sockets.first().and_then(Socket::address)).collect::<Vec<_>>();
        let entrances: Vec<_> = listeners.iter().map(|(_, behind)| Arc::clone(&behind.entrance)).collect();
        // Each thread has one of these as long as it serves.
        let (serves, others_serve) = mpsc::channel::<Infallible>(1);
        let serving = Arc::new(Mutex::new(vec![serves; threads.get()]));
        let watching = Arc::new(Mutex::new(Some((entrances.clone(), tell, others_serve))));
        let (of_desk, of_door) = (Arc::clone(&desk), doorway.handle());
        let work = move |_, doors: Vec<(FrontDoor, Behind)>, stopped| {
            let desk = Arc::clone(&desk);
            let (watching, serves) = (watching.lock().take(), serving.lock().pop());
            async move {
                // The first thread looks after what is not done for any one client.
                let others_serve = watching.map(|(entrances, tell, others_serve)| {
                    watch_over(&desk, &entrances, &tell);
                    others_serve
                });
                let (mut guests, clock) = (Guests::default(), desk.clock().clone());
                if let Some(patience) = busy_poll {
                    guests = guests.awaited_for(patience);
                }
                let of_guests = guests.clone();
                let let_in = move |connection, behind: &Behind, host: &_, closed: &_| {
                    let Behind { entrance, speaking } = behind;
                    desk.serve(*speaking, connection, entrance, host, closed, &of_guests);
                };
                let report = serve_until(doors, &guests, stopped, (patience, &clock), let_in).await;
                drop(serves);
                if let Some(mut others_serve) = others_serve {
                    // And does so until nobody is served any more: nothing is ever sent, it ends with the last of them.
                    while others_serve.recv().await.is_some() {}
                }
                report
            }
        };
        let shares = spread(listeners, threads);
        let threads =
            Threads::start("server", shares, &doorway, Idle::LetsOthersRun, work).map_err(ServerError::Thread)?;
        Ok(Running { vitals: Vitals { desk: of_desk, door: of_door }, addresses, entrances, threads, drain })
    }
}

/// Looks after certificates and what is held for clients, beside the serving.
fn watch_over(desk: &Arc<Desk>, entrances: &[Arc<Entrance>], tell: &Tell) {
    let of_desk = Arc::clone(desk);
    tokio::spawn(async move { of_desk.look_after().await });
    watch_certificates(entrances, desk.clock(), tell);
}

/// How a decision server fares, for whoever watches over it. Clones are of the same server.
#[derive(Clone)]
pub struct Vitals {
    desk: Arc<Desk>,
    door: DoorHandle,
}

impl Vitals {
    /// What has happened at the door.
    pub const fn door(&self) -> &DoorHandle {
        &self.door
    }

    /// Calls that came so far, by protocol: `rls`, `http` and `resp`.
    pub fn calls(&self) -> [(&'static str, u64); 3] {
        self.desk.calls()
    }

    /// How often limits of zero were asked, of envoyproxy/ratelimit's files. No rule counts them.
    pub fn zero_limits(&self) -> Vec<LimitCounts> {
        self.desk.rls().zero_limits()
    }

    /// How often values were asked that those files want told apart: `detailed_metric`, `value_to_metric`.
    pub fn values(&self) -> Vec<LimitCounts> {
        self.desk.rls().values()
    }
}

/// A decision server that serves.
pub struct Running {
    vitals: Vitals,
    addresses: Vec<Option<SocketAddr>>,
    entrances: Vec<Arc<Entrance>>,
    threads: Threads,
    drain: Duration,
}

impl Running {
    /// Where it listens, in the order of the settings: RLS, HTTP, RESP, each at its address and then at its Unix
    /// socket, which has none.
    pub fn addresses(&self) -> &[Option<SocketAddr>] {
        &self.addresses
    }

    /// How it fares.
    pub const fn vitals(&self) -> &Vitals {
        &self.vitals
    }

    /// Reads all certificates again. Those that are bad are told of, and stay as they were.
    pub async fn reload_certificates(&self) -> Vec<CertificateError> {
        reload_certificates(&self.entrances).await
    }

    /// Whether it goes on for a while when it is told to stop.
    pub const fn drains(&self) -> bool {
        !self.drain.is_zero()
    }

    /// Says that it will stop, and goes on serving for as long as the settings say: those who look after many servers
    /// need a while to send clients elsewhere. Dropped, it is done.
    pub async fn drain(&self) {
        if self.drains() {
            let desk = &self.vitals.desk;
            desk.drain().await;
            desk.clock().sleep(self.drain).await;
        }
    }

    /// Stops: nobody new is let in, what was asked is answered.
    pub fn stop(self, how: Stop) -> Report {
        let desk = self.vitals.desk;
        // Where that cannot be told, it is stopped all the same.
        drop(on_the_spot(async { desk.drain().await }));
        desk.leave();
        self.threads.end(how)
    }
}

/// Runs what needs a runtime where there is none, or where there is one: on a thread of its own, since one runtime
/// cannot be waited for within another.
fn on_the_spot<T: Send>(work: impl Future<Output = T> + Send) -> io::Result<T> {
    let runtime = Builder::new_current_thread().build()?;
    let gone = |_| io::Error::other("it ended before its work was done");
    thread::scope(|scope| {
        let worker = thread::Builder::new().spawn_scoped(scope, move || runtime.block_on(work))?;
        worker.join().map_err(gone)
    })
}

fn doorway(server: &settings::Server, clock: &ClockHandle) -> Result<Doorway, DoorError> {
    let settings::Connections { max, queue, per_client } = server.connections;
    let timeouts = server.timeouts;
    let mut door = FrontDoor::builder()
        .max_connections(max as usize)
        .queue(queue as usize)
        .refusal(Refusal::Close)
        .header_deadline(timeouts.head)
        .keep_alive(timeouts.idle)
        .send_deadline(timeouts.send)
        .parting(PARTING)
        .tunnels(false)
        .clock(clock.clone());
    if let Some(per_client) = per_client {
        door = door.per_client(per_client as usize);
    }
    door.doorway()
}
