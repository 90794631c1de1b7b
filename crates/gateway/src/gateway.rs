//! A gateway from its settings to its end.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sluicegate_config::settings::{self, Settings};
use sluicegate_door::{DoorError, DoorHandle, Doorway, FrontDoor};
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::Renderer;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::places;
use crate::route::{RouteError, Router};
use crate::shared::Shared;
use crate::thread::Thread;
use crate::upstream::{UpstreamError, Upstreams};

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
    /// Bounds that make no sense.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// An address that cannot be listened at.
    #[error("cannot listen at {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// A thread that cannot be had.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// A gateway that listens, and does not serve yet.
pub struct Gateway {
    shared: Arc<Shared>,
    doorway: Doorway,
    /// Sockets by thread.
    sockets: Vec<Vec<std::net::TcpListener>>,
    addresses: Vec<SocketAddr>,
}

impl Gateway {
    /// Opens a gateway as the settings say. `base` is the folder that files are looked up from.
    pub fn open(
        settings: &Settings,
        gateway: &settings::Gateway,
        sluice: Sluice,
        base: &Path,
    ) -> Result<Self, GatewayError> {
        let clock: ClockHandle = sluice.clock().clone();
        let doorway = doorway(gateway, &clock)?;
        let upstreams = Upstreams::new(&gateway.upstreams, base, &clock)?;
        let shared = Arc::new(Shared {
            router: Router::new(&gateway.routes)?,
            places: places::of(gateway, &upstreams),
            renderer: Renderer::new(settings.headers),
            forwarding: places::forwarding(gateway),
            sources: Default::default(),
            workers: doorway.workers(),
            timeouts: gateway.timeouts,
            clock,
            sluice,
            upstreams,
        });
        let threads = gateway.threads.map_or_else(cores, |threads| threads as usize).max(1);
        let mut sockets: Vec<Vec<std::net::TcpListener>> = (0..threads).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        for listener in &gateway.listen {
            let failed = |source| GatewayError::Listen { address: listener.address, source };
            let opened = open(listener.address, threads).map_err(failed)?;
            addresses.push(opened[0].local_addr().map_err(failed)?);
            for (of_thread, socket) in sockets.iter_mut().zip(opened) {
                of_thread.push(socket);
            }
        }
        Ok(Self { shared, doorway, sockets, addresses })
    }

    /// Where it listens, in the order of the settings.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Serves, on threads of its own.
    pub fn start(self) -> Result<Running, GatewayError> {
        let (stop, stopped) = watch::channel(());
        let mut threads = Vec::new();
        for (number, sockets) in self.sockets.into_iter().enumerate() {
            let (shared, doorway, stopped) = (Arc::clone(&self.shared), self.doorway.clone(), stopped.clone());
            let runtime = Builder::new_current_thread().enable_all().build().map_err(GatewayError::Thread)?;
            let work = move || runtime.block_on(serve(shared, doorway, sockets, stopped));
            let named = thread::Builder::new().name(format!("gateway-{number}"));
            threads.push(named.spawn(work).map_err(GatewayError::Thread)?);
        }
        Ok(Running { door: self.doorway.handle(), addresses: self.addresses, stop, threads })
    }
}

/// A gateway that serves.
pub struct Running {
    door: DoorHandle,
    addresses: Vec<SocketAddr>,
    stop: watch::Sender<()>,
    threads: Vec<JoinHandle<()>>,
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

    /// Stops: nobody new is let in, requests under way are answered.
    pub fn stop(self) {
        self.stop.send_replace(());
        for thread in self.threads {
            drop(thread.join());
        }
    }
}

async fn serve(shared: Arc<Shared>, doorway: Doorway, sockets: Vec<std::net::TcpListener>, stop: watch::Receiver<()>) {
    let thread = Thread::new(shared);
    let mut serving = JoinSet::new();
    for socket in sockets {
        let Ok(listener) = TcpListener::from_std(socket) else { continue };
        let door: FrontDoor = doorway.at(listener);
        serving.spawn(Arc::clone(&thread).serve(door, stop.clone()));
    }
    while serving.join_next().await.is_some() {}
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

/// How long idle connections are kept when the gateway stops, for requests that are on their way.
const PARTING: std::time::Duration = std::time::Duration::from_secs(1);

fn cores() -> usize {
    thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn open(address: SocketAddr, threads: usize) -> io::Result<Vec<std::net::TcpListener>> {
    use socket2::{Domain, Protocol, Socket, Type};
    let mut at = address;
    let mut opened = Vec::new();
    for _ in 0..threads {
        let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&at.into())?;
        socket.listen(1024)?;
        let listener: std::net::TcpListener = socket.into();
        at = listener.local_addr()?;
        opened.push(listener);
    }
    Ok(opened)
}
