//! Hyper connection driver: serves one connection from its first byte to its last.
//!
//! ```text
//!  handshake ──> idle ──> protocol detection ──> HTTP/2 ──> closed
//!                 ^                │
//!                 └──── HTTP/1 <───┘
//! ```
//! An HTTP/1 connection that stays idle is parked: hyper's buffers take several thousand times the memory that
//! an idle connection needs. When bytes arrive, the hyper connection is rebuilt. The task stays, since only it has
//! the service of the connection; the gateway can rebuild that too, so its `IdlePool` drops the task and has no code
//! in common with this.

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

use super::activity::Activity;
use super::admitted::Connection;
use super::connection_timer::ConnectionTimer;
use super::first_bytes::FirstBytes;
use super::prefixed_io::PrefixedIo;
use super::shutdown_signal::{ShutdownSignal, shutdown_changed};
use super::track_activity::TrackActivity;
use crate::limits::{ConnectionLimiter, increment};
use crate::timeouts::{TimeoutKind, Timeouts, park_after};

type BoxError = Box<dyn Error + Send + Sync>;

/// Size of the first read: enough for a typical request head.
const INITIAL_READ_BYTES: usize = 2 << 10;

/// Minimum header buffer that hyper accepts.
const MIN_HEADER_BYTES: usize = 8 << 10;

/// Limits of HTTP on one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpLimits {
    pub(crate) header_bytes: usize,
    pub(crate) max_streams: u32,
    pub(crate) allow_upgrades: bool,
}

/// Serves the connections of one listener, each from its first byte to its last.
pub struct ConnectionServer {
    limiter: Arc<ConnectionLimiter>,
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
}

/// An accepted connection that is ready for its first request.
#[derive(Debug)]
pub struct AcceptedIo<I> {
    /// The stream: the connection itself, or TLS over it.
    pub io: I,
    /// Client address as known from the connection.
    pub client: SocketAddr,
    /// Protocol, if it has been negotiated already (ALPN).
    pub is_http2: Option<bool>,
}

/// A stream over a [`Connection`]: the connection itself, or TLS over it.
pub trait AsConnection: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Returns the underlying connection.
    fn connection(&mut self) -> &mut Connection;
}

impl AsConnection for Connection {
    fn connection(&mut self) -> &mut Connection {
        self
    }
}

/// Shutdown of a connection, through all its protocols.
struct ConnectionShutdown<'a> {
    signal: ShutdownSignal<'a>,
    receiver: &'a watch::Receiver<()>,
}

impl ConnectionShutdown<'_> {
    /// True once the shutdown has begun.
    fn poll(&mut self, context: &mut Context<'_>) -> bool {
        self.signal.poll(self.receiver, context)
    }
}

/// Guard that counts a connection as parked until it is dropped.
pub struct ParkedGuard(Arc<ConnectionServer>);

impl ParkedGuard {
    /// Returns the server of this connection.
    pub const fn server(&self) -> &Arc<ConnectionServer> {
        &self.0
    }
}

impl Drop for ParkedGuard {
    fn drop(&mut self) {
        self.0.limiter.counters.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Result of serving HTTP/1 on a connection.
enum Http1Result<I, S> {
    Closed,
    /// It is idle and can be parked.
    Parked(PrefixedIo<I>, S),
}

impl ConnectionServer {
    pub(crate) fn new(limiter: Arc<ConnectionLimiter>, limits: HttpLimits) -> Self {
        let buffer = limits.header_bytes.max(MIN_HEADER_BYTES);
        let mut http1 = http1::Builder::new();
        // Timeouts are enforced by `ConnectionTimer`, for both protocols and before the protocol is known.
        http1.header_read_timeout(None).max_buf_size(buffer);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .max_concurrent_streams(limits.max_streams)
            .max_header_list_size(u32::try_from(buffer).unwrap_or(u32::MAX));
        if limits.allow_upgrades {
            http2.enable_connect_protocol();
        }
        Self { limiter, http1, http2 }
    }

    /// Serves a connection until it ends, a timeout expires or, after `closing` has changed, its requests are
    /// finished.
    ///
    /// `handshake` runs before the first request, within the header timeout: nothing, or a TLS handshake; `None`
    /// closes the connection. `service` creates the service of this connection.
    pub async fn serve<I, S, B, E>(
        self: Arc<Self>,
        connection: Connection,
        handshake: impl FnOnce(Connection) -> E + Send,
        service: impl FnOnce(&AcceptedIo<I>) -> S + Send,
        closing: watch::Receiver<()>,
    ) where
        E: Future<Output = Option<AcceptedIo<I>>> + Send,
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let activity = Activity::new(self.limiter.clock.clone());
        let mut timer = ConnectionTimer::new(Arc::clone(&activity), self.limiter.timeouts, self.limiter.clock.clone());
        let handshake = handshake(connection.with_activity(&activity));
        let Some(mut accepted) = self.handshake_with_timeout(handshake, &mut timer).await else { return };
        let mut service = TrackActivity::new(service(&accepted), activity);
        let is_http2 = accepted.is_http2.take();
        let mut io = PrefixedIo::new(accepted.io);
        let mut parked = None;
        let changed = pin!(shutdown_changed(closing.clone()));
        let mut shutdown = ConnectionShutdown { signal: ShutdownSignal::new(changed), receiver: &closing };
        loop {
            let http2 = match is_http2 {
                Some(true) => true,
                _ => match self.detect_protocol(&mut io, &mut timer, &mut shutdown).await {
                    Some(http2) => http2,
                    None => return,
                },
            };
            drop(parked.take());
            if http2 {
                // On the heap, like everything that exists only while requests are served: an idle connection stays small.
                return Box::pin(self.run_http2(io, service, &mut timer, &mut shutdown)).await;
            }
            match Box::pin(self.run_http1(io, service, &mut timer, &mut shutdown)).await {
                Http1Result::Closed => return,
                Http1Result::Parked(parked_io, of) => {
                    (io, service, parked) = (parked_io, of, Some(self.parked_guard()));
                }
            }
        }
    }

    /// Serves HTTP/2 on a connection, for servers that implement HTTP/1 themselves and detected another
    /// protocol. `prefix` holds the bytes already read; `is_closing` is set if `closing` has changed before.
    pub async fn serve_http2<I, S, B>(
        self: Arc<Self>,
        mut io: I,
        prefix: Bytes,
        service: S,
        closing: watch::Receiver<()>,
        is_closing: bool,
    ) where
        I: AsConnection,
        S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let activity = Activity::new(self.limiter.clock.clone());
        let mut timer = ConnectionTimer::new(Arc::clone(&activity), self.limiter.timeouts, self.limiter.clock.clone());
        if is_closing {
            timer.begin_shutdown();
        }
        io.connection().set_activity(&activity);
        let mut io = PrefixedIo::new(io);
        io.set_prefix(prefix);
        let changed = pin!(shutdown_changed(closing.clone()));
        let mut shutdown = ConnectionShutdown { signal: ShutdownSignal::new(changed), receiver: &closing };
        self.run_http2(io, TrackActivity::new(service, activity), &mut timer, &mut shutdown).await;
    }

    /// Returns the timeouts of a connection.
    pub fn timeouts(&self) -> Timeouts {
        self.limiter.timeouts
    }

    /// Counts a connection as parked until the returned guard is dropped.
    pub fn parked_guard(self: &Arc<Self>) -> ParkedGuard {
        self.limiter.counters.parked.fetch_add(1, Ordering::Relaxed);
        ParkedGuard(Arc::clone(self))
    }

    /// Idle time after which a connection should be parked.
    pub fn park_after(&self) -> Duration {
        park_after(self.limiter.counters.open.load(Ordering::Relaxed))
    }

    /// Runs the handshake within the header timeout.
    async fn handshake_with_timeout<T>(
        &self,
        handshake: impl Future<Output = Option<T>>,
        timer: &mut ConnectionTimer,
    ) -> Option<T> {
        // On the heap: a handshake future is large and short-lived.
        let mut handshake = Box::pin(handshake);
        poll_fn(|context| match handshake.as_mut().poll(context) {
            Poll::Ready(accepted) => Poll::Ready(accepted),
            Poll::Pending => timer.poll_timeout(context).map(|_| {
                increment(&self.limiter.counters.header_timeouts);
                None
            }),
        })
        .await
    }

    /// Waits for the first bytes of a request and detects HTTP/2. `None` if the connection ended or a timeout
    /// expired.
    async fn detect_protocol<I>(
        &self,
        io: &mut PrefixedIo<I>,
        timer: &mut ConnectionTimer,
        shutdown: &mut ConnectionShutdown<'_>,
    ) -> Option<bool>
    where
        I: AsyncRead + Unpin,
    {
        timer.set_park_after(None);
        let mut prefix = Vec::new();
        let http2 = poll_fn(|context| {
            if !timer.is_closing() && shutdown.poll(context) {
                timer.begin_shutdown();
            }
            loop {
                match poll_initial_read(io, &mut prefix, context) {
                    Poll::Ready(Err(_) | Ok(0)) => return Poll::Ready(None),
                    Poll::Ready(Ok(_)) => match FirstBytes::of(&prefix) {
                        FirstBytes::Http1 => return Poll::Ready(Some(false)),
                        FirstBytes::Http2 => return Poll::Ready(Some(true)),
                        FirstBytes::Undecided => {}
                    },
                    Poll::Pending => match timer.poll_timeout(context) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(kind) => {
                            self.record_timeout(kind);
                            return Poll::Ready(None);
                        }
                    },
                }
            }
        })
        .await?;
        io.set_prefix(Bytes::from(prefix));
        Some(http2)
    }

    async fn run_http1<I, S, B>(
        &self,
        io: PrefixedIo<I>,
        service: TrackActivity<S>,
        timer: &mut ConnectionTimer,
        shutdown: &mut ConnectionShutdown<'_>,
    ) -> Http1Result<I, TrackActivity<S>>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Incoming>, Response = Response<B>>,
        S::Error: Into<BoxError>,
        B: Body + 'static,
        B::Error: Into<BoxError>,
    {
        let mut served = self.http1.serve_connection(TokioIo::new(io), service).with_upgrades();
        timer.set_park_after(Some(park_after(self.limiter.counters.open.load(Ordering::Relaxed))));
        let parks_connection = poll_fn(|context| {
            if !timer.is_closing() && shutdown.poll(context) {
                timer.begin_shutdown();
            }
            loop {
                if Pin::new(&mut served).poll(context).is_ready() {
                    return Poll::Ready(false);
                }
                match timer.poll_timeout(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(TimeoutKind::Park) => return Poll::Ready(true),
                    Poll::Ready(TimeoutKind::Idle) => {
                        self.record_timeout(TimeoutKind::Idle);
                        Pin::new(&mut served).graceful_shutdown();
                    }
                    Poll::Ready(kind) => {
                        self.record_timeout(kind);
                        return Poll::Ready(false);
                    }
                }
            }
        })
        .await;
        match served.into_parts().filter(|_| parks_connection) {
            Some(parts) => {
                let mut io = parts.io.into_inner();
                io.set_prefix(parts.read_buf);
                Http1Result::Parked(io, parts.service)
            }
            None => Http1Result::Closed,
        }
    }

    async fn run_http2<I, S, B>(
        &self,
        io: PrefixedIo<I>,
        service: TrackActivity<S>,
        timer: &mut ConnectionTimer,
        shutdown: &mut ConnectionShutdown<'_>,
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
        let mut is_closing = timer.is_closing();
        if is_closing {
            served.as_mut().graceful_shutdown();
        }
        poll_fn(|context| {
            if !is_closing && shutdown.poll(context) {
                is_closing = true;
                // GOAWAY tells the client which of its requests will be served; none is lost.
                served.as_mut().graceful_shutdown();
            }
            loop {
                if served.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                match timer.poll_timeout(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(TimeoutKind::Idle) => {
                        self.record_timeout(TimeoutKind::Idle);
                        served.as_mut().graceful_shutdown();
                    }
                    Poll::Ready(kind) => {
                        self.record_timeout(kind);
                        return Poll::Ready(());
                    }
                }
            }
        })
        .await;
    }

    /// Counts a connection that was closed by a timeout.
    pub fn record_timeout(&self, kind: TimeoutKind) {
        let counters = &self.limiter.counters;
        match kind {
            TimeoutKind::Header => increment(&counters.header_timeouts),
            TimeoutKind::Idle => increment(&counters.idle_timeouts),
            TimeoutKind::Write => increment(&counters.write_timeouts),
            TimeoutKind::Shutdown | TimeoutKind::Park => {}
        }
    }
}

/// Reads more bytes, up to a typical request head.
fn poll_initial_read<I>(
    io: &mut PrefixedIo<I>,
    prefix: &mut Vec<u8>,
    context: &mut Context<'_>,
) -> Poll<io::Result<usize>>
where
    I: AsyncRead + Unpin,
{
    let mut space = [MaybeUninit::uninit(); INITIAL_READ_BYTES];
    let mut buffer = ReadBuf::uninit(&mut space);
    Pin::new(io).poll_read(context, &mut buffer).map_ok(|()| {
        prefix.extend_from_slice(buffer.filled());
        buffer.filled().len()
    })
}

impl std::fmt::Debug for ConnectionServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectionServer").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ParkedGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParkedGuard").finish_non_exhaustive()
    }
}
