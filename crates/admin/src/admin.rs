//! The admin listener from its settings to its end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use parking_lot::Mutex;
use sluicegate_config::settings;
use sluicegate_door::{Connection, DoorError, Doorway, Entered, FrontDoor, Host, Refusal};
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http::identity::TrustedProxies;
use sluicegate_listen::{
    CertificateError, Entrance, EntranceError, Guests, Idle, ListenError, Process, Report, Socket, Stop, Tell, Threads,
    reload_certificates, serve_until, spread, watch_certificates,
};
use thiserror::Error;
use tokio::sync::watch;

use crate::http::{Api, Body};
use crate::metrics::otlp::{OtlpError, Push};
use crate::sources::Sources;
use crate::tokens::{Tokens, TokensError};

/// How many connections are served at once. Operators are few; a browser has six.
const CONNECTIONS: usize = 256;

/// How many wait for a place.
const QUEUE: usize = 64;

/// How long a client may take to read on.
const SEND: Duration = Duration::from_secs(10);

/// How long idle connections are kept when the listener stops, for calls that are on their way.
const PARTING: Duration = Duration::from_millis(200);

/// How long calls under way may take when the listener stops.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often is looked whether something's time is up, or the tokens have changed.
const ROUND: Duration = Duration::from_secs(1);

/// After how many rounds the tokens are read again.
const TOKENS_EVERY: u32 = 5;

/// Why there is no admin listener.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Tokens that cannot be used.
    #[error("admin.token: {0}")]
    Tokens(#[from] TokensError),
    /// A collector that cannot be pushed to.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
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

/// An admin listener that is open, and does not serve yet.
pub struct Admin {
    desk: Arc<Desk>,
    doorway: Doorway,
    sockets: Vec<Socket>,
}

/// What calls are answered with.
struct Desk {
    api: Api,
    entrance: Arc<Entrance>,
    /// The file of tokens.
    tokens: Option<PathBuf>,
    push: Option<Push>,
    clock: ClockHandle,
}

impl Admin {
    /// Opens a listener as the settings say: its socket is open, and everything that can be wrong is found.
    /// `base` is the folder that files are looked up from.
    pub fn open(
        settings: &settings::Admin,
        sources: Sources,
        base: &Path,
        process: &mut Process,
    ) -> Result<Self, OpenError> {
        let clock = sources.sluice.clock().clone();
        let doorway = FrontDoor::builder()
            .max_connections(CONNECTIONS)
            .queue(QUEUE)
            .refusal(Refusal::Close)
            .send_deadline(SEND)
            .parting(PARTING)
            .tunnels(false)
            .clock(clock.clone())
            .doorway()?;
        let file = settings.token.as_ref().map(|file| base.join(file));
        let tokens = file.as_deref().map(Tokens::read).transpose()?;
        let push = settings.otlp.as_ref().map(Push::new).transpose()?;
        let listener =
            settings::Listener { address: settings.listen, tls: settings.tls.clone(), proxy_protocol: false };
        let entrance = Arc::new(Entrance::new(&listener, &TrustedProxies::none(), base)?);
        let sockets = process.listen(&[settings.listen], NonZeroUsize::MIN)?.into_iter().flatten().collect();
        let desk = Desk { api: Api::new(sources, tokens), entrance, tokens: file, push, clock };
        Ok(Self { desk: Arc::new(desk), doorway, sockets })
    }

    /// Serves, on a thread of its own. `tell` hears what an operator should know, a line at a time.
    pub fn start(self, tell: impl Fn(&str) + Send + Sync + 'static) -> Result<Running, OpenError> {
        self.start_telling(Arc::new(tell))
    }

    fn start_telling(self, tell: Tell) -> Result<Running, OpenError> {
        let Self { desk, doorway, sockets } = self;
        let address = sockets.first().and_then(Socket::address);
        if let Some(remark) = desk.tokens.as_deref().and_then(Tokens::remark) {
            tell(&remark);
        }
        let (of_desk, of_teller) = (Arc::clone(&desk), Arc::clone(&tell));
        let beginning = Arc::new(Mutex::new(Some(tell)));
        let work = move |_, doors: Vec<(FrontDoor, ())>, stopped| {
            let (desk, tell) = (Arc::clone(&desk), beginning.lock().take());
            async move {
                if let Some(tell) = tell {
                    desk.look_after(&tell);
                }
                let guests = Guests::default();
                let (of_guests, clock) = (guests.clone(), desk.clock.clone());
                let let_in = move |connection, &(): &(), host: &_, closed: &_| {
                    desk.serve(connection, host, closed, &of_guests);
                };
                serve_until(doors, &guests, stopped, (PATIENCE, &clock), let_in).await
            }
        };
        let shares = spread(vec![(sockets, ())], NonZeroUsize::MIN);
        let threads = Threads::start("admin", shares, &doorway, Idle::Sleeps, work).map_err(OpenError::Thread)?;
        Ok(Running { desk: of_desk, tell: of_teller, address, threads })
    }
}

impl Desk {
    /// Does what is not done for any one call, beside the serving.
    fn look_after(self: &Arc<Self>, tell: &Tell) {
        watch_certificates(&[Arc::clone(&self.entrance)], &self.clock, tell);
        let desk = Arc::clone(self);
        tokio::spawn(async move { desk.api.tell().await });
        let (desk, told) = (Arc::clone(self), Arc::clone(tell));
        tokio::spawn(async move { desk.go_round(&told).await });
        let (desk, tell) = (Arc::clone(self), Arc::clone(tell));
        tokio::spawn(async move {
            if let Some(push) = &desk.push {
                push.run(desk.api.sources(), &*tell).await;
            }
        });
    }

    async fn go_round(&self, tell: &Tell) {
        let mut watched = self.tokens.as_deref().map(Watched::new);
        for round in 1u32.. {
            self.clock.sleep(ROUND).await;
            self.api.expire();
            if let Some(watched) = &mut watched
                && round.is_multiple_of(TOKENS_EVERY)
                && watched.has_changed()
            {
                self.reread_tokens(tell);
            }
        }
    }

    /// Reads the tokens again. Those that are bad are told of, and stay as they were.
    fn reread_tokens(&self, tell: &Tell) {
        let Some(file) = &self.tokens else { return };
        match Tokens::read(file) {
            Ok(tokens) => {
                self.api.set_tokens(tokens);
                tell("the tokens were read again");
            }
            Err(error) => tell(&format!("the tokens stay as they were: {error}")),
        }
    }

    fn serve(
        self: &Arc<Self>,
        connection: Connection,
        host: &Arc<Host>,
        closed: &watch::Receiver<()>,
        guests: &Guests,
    ) {
        let (desk, entrance) = (Arc::clone(self), Arc::clone(&self.entrance));
        let enter = |connection: Connection| async move {
            let peer = connection.peer_addr();
            // Whoever cannot get in is nobody's client: there is nothing to answer with.
            let entered = entrance.enter(connection, peer).await.ok()?;
            Some(Entered { io: entered.stream, client: entered.client, is_http2: entered.http2 })
        };
        let calls = move |entered: &Entered<_>| Calls { desk, peer: entered.client };
        guests.spawn(Arc::clone(host).host(connection, enter, calls, closed.clone()));
    }
}

/// The file of tokens as it was last seen.
struct Watched<'f> {
    file: &'f Path,
    seen: Option<Vec<u8>>,
}

impl<'f> Watched<'f> {
    fn new(file: &'f Path) -> Self {
        Self { file, seen: std::fs::read(file).ok() }
    }

    /// Whether there is something else in it than when it was last asked.
    fn has_changed(&mut self) -> bool {
        let now = std::fs::read(self.file).ok();
        std::mem::replace(&mut self.seen, now) != self.seen
    }
}

/// Calls of one connection.
struct Calls {
    desk: Arc<Desk>,
    peer: SocketAddr,
}

impl Service<Request<Incoming>> for Calls {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (desk, peer) = (Arc::clone(&self.desk), self.peer);
        Box::pin(async move { Ok(desk.api.answer(request, peer).await) })
    }
}

/// An admin listener that serves.
pub struct Running {
    desk: Arc<Desk>,
    tell: Tell,
    address: Option<SocketAddr>,
    threads: Threads,
}

impl Running {
    /// Where it listens.
    pub const fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Reads certificate and tokens again. What is bad is told of, and stays as it was.
    pub async fn reload_certificates(&self) -> Vec<CertificateError> {
        self.desk.reread_tokens(&self.tell);
        reload_certificates(&[Arc::clone(&self.desk.entrance)]).await
    }

    /// Stops: nobody new is let in, what was asked is answered, and nothing more is told to those who listen.
    pub fn stop(self, how: Stop) -> Report {
        self.desk.api.drain();
        self.threads.end(how)
    }
}
