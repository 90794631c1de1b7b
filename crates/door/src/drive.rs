//! One connection's life, from its first byte to its last.
//!
//! ```text
//!  entrance ──> rest ──> first bytes ──> HTTP/2 ──> over
//!                 ^            │
//!                 └── HTTP/1 <─┘
//! ```
//! A connection that waits for its next request for a while is taken apart: what hyper keeps for it is worth
//! several thousand times what an idle connection needs. When bytes come, it is put together again.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use crate::activity::Activity;
use crate::builder::buffer_for;
use crate::connection::Connection;
use crate::counts::add_one;
use crate::doorway::Doorway;
use crate::gate::Gate;
use crate::noting::Noting;
use crate::rewound::Rewound;
use crate::watchman::{Late, Patience, Watchman, rest_after};

type BoxError = Box<dyn Error + Send + Sync>;

/// With what connections of HTTP/2 begin.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How much is read at once of a connection's first bytes: the head of a usual request.
const FIRST_READ: usize = 2 << 10;

/// Serves connections of one door, each from its first byte to its last.
pub struct Host {
    gate: Arc<Gate>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

/// A connection that is ready for its first request.
#[derive(Debug)]
pub struct Entered<I> {
    /// What is read and written: the connection itself, or TLS over it.
    pub io: I,
    /// Who the client is, as far as the connection tells.
    pub client: SocketAddr,
    /// What is spoken, if that has been agreed upon already.
    pub is_http2: Option<bool>,
}

/// What a connection of this door is read and written through: itself, or TLS over it.
pub trait OverConnection: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// The connection underneath.
    fn connection(&mut self) -> &mut Connection;
}

impl OverConnection for Connection {
    fn connection(&mut self) -> &mut Connection {
        self
    }
}

/// A connection at rest, counted until dropped.
pub struct Resting(Arc<Host>);

impl Resting {
    /// Who serves it.
    pub const fn host(&self) -> &Arc<Host> {
        &self.0
    }
}

impl Drop for Resting {
    fn drop(&mut self) {
        self.0.gate.counters.resting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What became of a connection of HTTP/1.
enum Served<I, S> {
    Over,
    /// It waits for its next request.
    Rests(Rewound<I>, S),
}

impl Host {
    pub(crate) fn new(door: &Doorway) -> Self {
        let buffer = buffer_for(door.header_bytes);
        let mut http1 = http1::Builder::new();
        // Deadlines are kept by the door itself, for both protocols and before it is known which it is.
        http1.header_read_timeout(None).max_buf_size(buffer);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2.max_concurrent_streams(door.max_streams).max_header_list_size(u32::try_from(buffer).unwrap_or(u32::MAX));
        if door.tunnels {
            http2.enable_connect_protocol();
        }
        Self { gate: Arc::clone(&door.gate), http1, http2 }
    }

    /// Serves a connection until it ends, its client is too slow, or, after `closing` has changed, its
    /// requests are answered.
    ///
    /// `enter` is what comes before the first request, within the time for a head: nothing, or a TLS
    /// handshake; `None` closes the connection. `service` makes the service of this one connection.
    pub async fn host<I, S, B, E>(
        self: Arc<Self>,
        connection: Connection,
        enter: impl FnOnce(Connection) -> E + Send,
        service: impl FnOnce(&Entered<I>) -> S + Send,
        mut closing: watch::Receiver<()>,
    ) where
        E: Future<Output = Option<Entered<I>>> + Send,
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let activity = Activity::new(self.gate.clock.clone());
        let mut watchman = Watchman::new(Arc::clone(&activity), self.gate.patience, self.gate.clock.clone());
        let entering = enter(connection.noted_in(&activity));
        let Some(mut entered) = self.entered(entering, &mut watchman).await else { return };
        let mut service = Noting::new(service(&entered), activity);
        let is_http2 = entered.is_http2.take();
        let mut io = Rewound::new(entered.io);
        let mut resting = None;
        loop {
            let http2 = match is_http2 {
                Some(true) => true,
                _ => match self.first_bytes(&mut io, &mut watchman, &mut closing).await {
                    Some(http2) => http2,
                    None => return,
                },
            };
            drop(resting.take());
            if http2 {
                // On the heap, as all that is only there while requests are: a connection at rest is small.
                return Box::pin(self.serve_http2(io, service, &mut watchman, &mut closing)).await;
            }
            match Box::pin(self.serve_http1(io, service, &mut watchman, &mut closing)).await {
                Served::Over => return,
                Served::Rests(at_rest, of) => (io, service, resting) = (at_rest, of, Some(self.rest())),
            }
        }
    }

    /// Serves HTTP/2 on a connection of this door, for servers that speak HTTP/1 themselves and found that this is none
    /// of it. `ahead` was read of it already; `is_closing` says that `closing` has changed before.
    pub async fn host_http2<I, S, B>(
        self: Arc<Self>,
        mut io: I,
        ahead: Bytes,
        service: S,
        mut closing: watch::Receiver<()>,
        is_closing: bool,
    ) where
        I: OverConnection,
        S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let activity = Activity::new(self.gate.clock.clone());
        let mut watchman = Watchman::new(Arc::clone(&activity), self.gate.patience, self.gate.clock.clone());
        if is_closing {
            watchman.door_closes();
        }
        io.connection().note_in(&activity);
        let mut io = Rewound::new(io);
        io.rewind(ahead);
        self.serve_http2(io, Noting::new(service, activity), &mut watchman, &mut closing).await;
    }

    /// How long connections may take over what.
    pub fn patience(&self) -> Patience {
        self.gate.patience
    }

    /// Counts a connection as one at rest, until what is returned is dropped.
    pub fn rest(self: &Arc<Self>) -> Resting {
        self.gate.counters.resting.fetch_add(1, Ordering::Relaxed);
        Resting(Arc::clone(self))
    }

    /// After how long without a request a connection should rest.
    pub fn rest_after(&self) -> Duration {
        rest_after(self.gate.counters.open.load(Ordering::Relaxed))
    }

    /// Counts a connection that was closed because it took too long.
    pub fn closed_late(&self, late: Late) {
        self.note(late);
    }

    /// What comes before the first request, within the time for a head.
    async fn entered<T>(&self, entering: impl Future<Output = Option<T>>, watchman: &mut Watchman) -> Option<T> {
        // On the heap: a handshake is large, and soon over.
        let mut entering = Box::pin(entering);
        poll_fn(|context| match entering.as_mut().poll(context) {
            Poll::Ready(entered) => Poll::Ready(entered),
            Poll::Pending => watchman.poll_late(context).map(|_| {
                add_one(&self.gate.counters.header_timeouts);
                None
            }),
        })
        .await
    }

    /// Waits for the first bytes of a request, and tells whether they are HTTP/2. `None`: there are none, or
    /// they took too long.
    async fn first_bytes<I>(
        &self,
        io: &mut Rewound<I>,
        watchman: &mut Watchman,
        closing: &mut watch::Receiver<()>,
    ) -> Option<bool>
    where
        I: AsyncRead + Unpin,
    {
        watchman.tell_rest(None);
        let mut ahead = Vec::new();
        let mut closes = pin!(closing.changed());
        let mut told = watchman.is_closing();
        let http2 = poll_fn(|context| {
            if !told && closes.as_mut().poll(context).is_ready() {
                told = true;
                watchman.door_closes();
            }
            loop {
                match poll_first(io, &mut ahead, context) {
                    Poll::Ready(Err(_) | Ok(0)) => return Poll::Ready(None),
                    Poll::Ready(Ok(_)) => {
                        let compared = ahead.len().min(PREFACE.len());
                        if ahead[..compared] != PREFACE[..compared] {
                            return Poll::Ready(Some(false));
                        }
                        if compared == PREFACE.len() {
                            return Poll::Ready(Some(true));
                        }
                    }
                    Poll::Pending => match watchman.poll_late(context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(late) => {
                            self.note(late);
                            return Poll::Ready(None);
                        }
                    },
                }
            }
        })
        .await?;
        io.rewind(Bytes::from(ahead));
        Some(http2)
    }

    async fn serve_http1<I, S, B>(
        &self,
        io: Rewound<I>,
        service: Noting<S>,
        watchman: &mut Watchman,
        closing: &mut watch::Receiver<()>,
    ) -> Served<I, Noting<S>>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Error: Into<BoxError>,
        B: Body + 'static,
        B::Error: Into<BoxError>,
    {
        let mut served = self.http1.serve_connection(TokioIo::new(io), service).with_upgrades();
        let mut closes = pin!(closing.changed());
        let mut told = watchman.is_closing();
        watchman.tell_rest(Some(rest_after(self.gate.counters.open.load(Ordering::Relaxed))));
        let rests = poll_fn(|context| {
            if !told && closes.as_mut().poll(context).is_ready() {
                told = true;
                watchman.door_closes();
            }
            loop {
                if Pin::new(&mut served).poll(context).is_ready() {
                    return Poll::Ready(false);
                }
                match watchman.poll_late(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Late::Rest) => return Poll::Ready(true),
                    Poll::Ready(Late::Idle) => {
                        self.note(Late::Idle);
                        Pin::new(&mut served).graceful_shutdown();
                    }
                    Poll::Ready(late) => {
                        self.note(late);
                        return Poll::Ready(false);
                    }
                }
            }
        })
        .await;
        match served.into_parts().filter(|_| rests) {
            Some(parts) => {
                let mut io = parts.io.into_inner();
                io.rewind(parts.read_buf);
                Served::Rests(io, parts.service)
            }
            None => Served::Over,
        }
    }

    async fn serve_http2<I, S, B>(
        &self,
        io: Rewound<I>,
        service: Noting<S>,
        watchman: &mut Watchman,
        closing: &mut watch::Receiver<()>,
    ) where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let mut served = pin!(self.http2.serve_connection(TokioIo::new(io), service));
        let mut closes = pin!(closing.changed());
        let mut told = watchman.is_closing();
        if told {
            served.as_mut().graceful_shutdown();
        }
        poll_fn(|context| {
            if !told && closes.as_mut().poll(context).is_ready() {
                told = true;
                // The client is told which of its requests will be answered: none is lost.
                served.as_mut().graceful_shutdown();
            }
            loop {
                if served.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                match watchman.poll_late(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Late::Idle) => {
                        self.note(Late::Idle);
                        served.as_mut().graceful_shutdown();
                    }
                    Poll::Ready(late) => {
                        self.note(late);
                        return Poll::Ready(());
                    }
                }
            }
        })
        .await;
    }

    /// Counts what took too long.
    fn note(&self, late: Late) {
        let counters = &self.gate.counters;
        match late {
            Late::Head => add_one(&counters.header_timeouts),
            Late::Idle => add_one(&counters.idle_closed),
            Late::Reading => add_one(&counters.unread_closed),
            Late::Leaving | Late::Rest => {}
        }
    }
}

/// Reads on, a usual request's head at once.
fn poll_first<I>(io: &mut Rewound<I>, ahead: &mut Vec<u8>, context: &mut Context<'_>) -> Poll<io::Result<usize>>
where
    I: AsyncRead + Unpin,
{
    let mut space = [MaybeUninit::uninit(); FIRST_READ];
    let mut buffer = ReadBuf::uninit(&mut space);
    Pin::new(io).poll_read(context, &mut buffer).map_ok(|()| {
        ahead.extend_from_slice(buffer.filled());
        buffer.filled().len()
    })
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Resting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resting").finish_non_exhaustive()
    }
}
