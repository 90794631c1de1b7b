//! HTTP/1 server connection and its request loop.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Method, Version};
use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_http1::{ParseError, ReadRequest, read_request};
use sluicegate_net::{
    Connection, ConnectionServer, FirstBytes, LazyTimer, LingeringClose, MaybeTlsStream, ParkedGuard, ShutdownSignal,
    TimeoutKind, shutdown_changed,
};
use tokio::sync::watch;

use super::http2::Http2Service;
use super::timeouts::PhaseTimeouts;
use super::write_response::WriteResult;
use crate::affinity::{ClientCpu, WorkerHandle};
use crate::client_context::ClientContext;
use crate::client_io::{ClientIo, SharedBody, SharedIo};
use crate::error::ProxyError;
use crate::idle_pool::ParkedConnection;
use crate::proxy::{self, RequestDecision};
use crate::request_body::IncomingBody;
use crate::response::{ProxyResponse, Tunnel};
use crate::worker::Worker;
use crate::yield_once::yield_once;

/// Bytes that a client may send ahead of its responses before reading stops.
const MAX_READ_AHEAD: usize = 64 << 10;

/// Time that the connection stays open for a client that still sends data which is not read. Closing at once
/// could discard the response.
const LINGER_TIMEOUT: Duration = Duration::from_secs(5);

/// A client connection.
pub(crate) struct Http1Connection {
    pub(super) io: SharedIo,
    pub(super) timeouts: PhaseTimeouts,
    pub(super) shutdown: watch::Receiver<()>,
    pub(super) server: Arc<ConnectionServer>,
    pub(super) client: Arc<ClientContext>,
    client_cpu: ClientCpu,
}

/// Protocol of the first bytes.
enum Preface {
    Http1,
    Http2,
    /// Closed before any byte arrived.
    Closed,
}

/// Next event on an active connection.
#[expect(clippy::large_enum_variant, reason = "nearly always the large variant, which is moved out at once")]
enum ReadEvent {
    Request(ReadRequest),
    Invalid(ParseError),
    /// Nothing arrived for a while.
    Idle,
    Closed,
}

/// Result of serving requests.
enum ServeResult {
    Idle,
    /// Migrate to the worker with this index, on the client's CPU.
    Migrate(usize),
    /// Another protocol follows.
    Upgraded(Box<Tunnel>),
    Close,
}

/// Properties of a request that affect its response.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestTraits {
    pub(super) is_head: bool,
    /// True for HTTP/1.1, which has chunked coding.
    pub(super) is_http11: bool,
    /// True if another request may follow.
    pub(super) keep_alive: bool,
    /// True if the client accepts trailers.
    pub(super) accepts_trailers: bool,
}

impl RequestTraits {
    fn of(read: &ReadRequest) -> Self {
        Self {
            is_head: *read.head.method() == Method::HEAD,
            is_http11: read.head.version() == Version::HTTP_11,
            keep_alive: read.keep_alive,
            accepts_trailers: read.accepts_trailers,
        }
    }

    /// For input that is not a valid request: its end is unknown.
    const fn unknown() -> Self {
        Self { is_head: false, is_http11: true, keep_alive: false, accepts_trailers: false }
    }
}

impl Http1Connection {
    /// Creates a connection accepted at `since`.
    pub(crate) fn new(
        stream: MaybeTlsStream<Connection>,
        client: Arc<ClientContext>,
        server: Arc<ConnectionServer>,
        shutdown: watch::Receiver<()>,
        since: Timestamp,
    ) -> Self {
        let timer = LazyTimer::new(client.worker.gateway.clock.clone());
        let timeouts = PhaseTimeouts::new(server.timeouts(), timer, since);
        let io = Arc::new(Mutex::new(ClientIo::new(stream)));
        Self { io, timeouts, shutdown, server, client, client_cpu: ClientCpu::default() }
    }

    /// Restores a parked connection.
    pub(super) fn resume(parked: ParkedConnection, worker: &Arc<Worker>) -> io::Result<Self> {
        let ParkedConnection { connection, address, since, idle_guard } = parked;
        let client = ClientContext::new(Arc::clone(worker), SocketAddr::new(address, 0), false);
        let server = Arc::clone(idle_guard.server());
        let stream = MaybeTlsStream::Plain(Connection::resume(connection)?);
        let mut connection = Self::new(stream, client, server, worker.tasks.shutdown_signal(), since);
        connection.timeouts.enter_idle_at(since);
        Ok(connection)
    }

    /// Parks the connection; returns it if it cannot be parked. Also `None` if it is broken and therefore closed.
    fn park(self) -> Option<Self> {
        let worker = Arc::clone(&self.client.worker);
        self.park_on(worker.handle())
    }

    /// Migrates to another worker; returns the connection if that is not possible. It is parked there until its
    /// next request arrives, which may be immediately.
    fn migrate(self, worker: usize) -> Option<Self> {
        let gateway = Arc::clone(&self.client.worker.gateway);
        let target = gateway.worker_registry.get(worker);
        let not_migrated = self.park_on(target);
        if not_migrated.is_none() {
            target.connection_migrated_in();
        }
        not_migrated
    }

    fn park_on(self, worker: &WorkerHandle) -> Option<Self> {
        let Some(idle_pool) = &worker.idle_pool else { return Some(self) };
        // With an HTTP/2 upstream, another task may hold the body of the last request a moment longer.
        let is_sole = Arc::strong_count(&self.io) == 1;
        if self.timeouts.is_closing() || !is_sole || !self.io.lock().can_park() {
            return Some(self);
        }
        let Self { io, timeouts, server, client, .. } = self;
        let connection = Arc::into_inner(io)?.into_inner().park()?;
        let (address, since, idle_guard) = (client.origin.address, timeouts.phase_since(), server.parked_guard());
        let unparked = idle_pool.park(ParkedConnection { connection, address, since, idle_guard })?;
        Self::resume(unparked, &client.worker).ok()
    }

    /// Serves the connection until it ends, times out, or the gateway stops.
    pub(crate) async fn serve(self, is_http2: Option<bool>) {
        if is_http2 == Some(true) {
            return Box::pin(self.serve_http2()).await;
        }
        self.run(is_http2.is_none(), None).await;
    }

    /// Serves a resumed connection.
    pub(super) async fn serve_resumed(self) {
        let idle_guard = self.server.parked_guard();
        self.run(false, Some(idle_guard)).await;
    }

    async fn run(mut self, mut may_be_http2: bool, mut idle_guard: Option<ParkedGuard>) {
        let changed = pin!(shutdown_changed(self.shutdown.clone()));
        let mut shutdown_signal = ShutdownSignal::new(changed);
        loop {
            match self.read_preface(may_be_http2, &mut shutdown_signal).await {
                Preface::Http1 => {}
                Preface::Http2 => return Box::pin(self.serve_http2()).await,
                Preface::Closed => return,
            }
            drop(idle_guard.take());
            may_be_http2 = false;
            // Boxed, like everything that exists only during requests: an idle connection stays small.
            match Box::pin(self.serve_requests(&mut shutdown_signal)).await {
                ServeResult::Idle => {
                    let Some(active) = self.park() else { return };
                    self = active;
                    self.io.lock().buffered.release_buffers();
                    idle_guard = Some(self.server.parked_guard());
                }
                ServeResult::Migrate(worker) => {
                    let Some(not_migrated) = self.migrate(worker) else { return };
                    self = not_migrated;
                }
                ServeResult::Upgraded(tunnel) => return Box::pin(self.run_tunnel(tunnel)).await,
                ServeResult::Close => return self.io.lock().end_request(),
            }
        }
    }

    /// Waits for the first bytes, without any buffers.
    async fn read_preface(&mut self, may_be_http2: bool, shutdown_signal: &mut ShutdownSignal<'_>) -> Preface {
        let Self { io, timeouts, shutdown, server, .. } = self;
        poll_fn(|context| {
            check_shutdown(shutdown_signal, shutdown, timeouts, context);
            let buffered = &mut io.lock().buffered;
            loop {
                if !may_be_http2 && !buffered.input.is_empty() {
                    return Poll::Ready(Preface::Http1);
                }
                match FirstBytes::of(&buffered.input) {
                    FirstBytes::Http1 => return Poll::Ready(Preface::Http1),
                    FirstBytes::Http2 => return Poll::Ready(Preface::Http2),
                    FirstBytes::Undecided => {}
                }
                match buffered.poll_fill(context) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(_) => return Poll::Ready(Preface::Closed),
                    Poll::Pending => break,
                }
            }
            timeouts.poll_timeout(context).map(|kind| {
                server.record_timeout(kind);
                Preface::Closed
            })
        })
        .await
    }

    async fn serve_http2(self) {
        let Some(io) = Arc::into_inner(self.io) else { return };
        let (stream, read_ahead) = io.into_inner().buffered.into_parts();
        let service = Http2Service(self.client);
        self.server.serve_http2(stream, read_ahead.freeze(), service, self.shutdown, self.timeouts.is_closing()).await;
    }

    /// Relays another protocol.
    async fn run_tunnel(self, tunnel: Box<Tunnel>) {
        let Some(io) = Arc::into_inner(self.io) else { return };
        let (stream, read_ahead) = io.into_inner().buffered.into_parts();
        tunnel.relay(stream, read_ahead).await;
    }

    /// Serves requests one after the other.
    async fn serve_requests(&mut self, shutdown_signal: &mut ShutdownSignal<'_>) -> ServeResult {
        loop {
            let read = match self.next_event(shutdown_signal).await {
                ReadEvent::Request(read) => read,
                ReadEvent::Invalid(error) => {
                    let proxy_error = match error {
                        ParseError::TooLarge => ProxyError::HeadTooLarge,
                        error => ProxyError::BadRequest(error.reason()),
                    };
                    self.write_response(
                        ProxyResponse::from_gateway(proxy_error.render(), false),
                        RequestTraits::unknown(),
                    )
                    .await;
                    self.linger().await;
                    return ServeResult::Close;
                }
                ReadEvent::Idle => return ServeResult::Idle,
                ReadEvent::Closed => return ServeResult::Close,
            };
            let _in_flight = self.client.worker.counters.begin();
            let traits = RequestTraits::of(&read);
            let mut body = IncomingBody::Empty;
            let is_read = {
                let mut io = self.io.lock();
                io.begin_request(read.framing, read.expects_continue);
                io.is_request_read()
            };
            if !is_read {
                body = IncomingBody::Http1(SharedBody::new(&self.io));
            }
            let mut request = read.head.map(|()| body);
            let written =
                match proxy::decide(&self.client, &mut request, |renderer, decision| renderer.refuse_raw(decision)) {
                    RequestDecision::Refused(refusal) => {
                        drop(request);
                        self.write_refusal(&refusal, traits).await
                    }
                    RequestDecision::Continue(decided) => {
                        if decided.goes_upstream(&self.client) {
                            yield_once().await;
                        }
                        let response = {
                            let responding = pin!(proxy::respond(Arc::clone(&self.client), &mut request, decided));
                            self.or_disconnect(responding).await
                        };
                        drop(request);
                        match response {
                            Some(response) => self.write_response(response, traits).await,
                            None => return ServeResult::Close,
                        }
                    }
                };
            match written {
                WriteResult::KeepAlive => {
                    self.timeouts.enter_idle();
                    let worker = &self.client.worker;
                    let incoming_cpu = || self.io.lock().incoming_cpu();
                    if let Some(target) =
                        self.client_cpu.request_done(&worker.gateway.worker_registry, worker.index, incoming_cpu)
                    {
                        return ServeResult::Migrate(target);
                    }
                }
                WriteResult::Upgraded(tunnel) => return ServeResult::Upgraded(tunnel),
                WriteResult::Linger => {
                    self.linger().await;
                    return ServeResult::Close;
                }
                WriteResult::Close => return ServeResult::Close,
            }
        }
    }

    /// Reads the next request.
    async fn next_event(&mut self, shutdown_signal: &mut ShutdownSignal<'_>) -> ReadEvent {
        let Self { io, timeouts, shutdown, server, client, .. } = self;
        let max_header_size = client.worker.gateway.max_head_bytes;
        let mut scanned = 0;
        poll_fn(|context| {
            check_shutdown(shutdown_signal, shutdown, timeouts, context);
            let buffered = &mut io.lock().buffered;
            loop {
                // A head that arrives byte by byte is parsed only when a line is complete.
                let has_line = buffered.input[scanned..].contains(&b'\n');
                scanned = buffered.input.len();
                if has_line || scanned >= max_header_size {
                    match read_request(&mut buffered.input, max_header_size) {
                        Ok(Some(read)) => return Poll::Ready(ReadEvent::Request(read)),
                        Ok(None) => {}
                        Err(error) => return Poll::Ready(ReadEvent::Invalid(error)),
                    }
                }
                if scanned > 0 {
                    timeouts.begin_head();
                }
                // Flush pending output before waiting for input.
                let before = buffered.pending_bytes();
                match buffered.poll_flush(context) {
                    Poll::Ready(Ok(())) => timeouts.write_progressed(),
                    Poll::Ready(Err(_)) => return Poll::Ready(ReadEvent::Closed),
                    Poll::Pending => {
                        if buffered.pending_bytes() < before {
                            timeouts.write_progressed();
                        }
                        return timeouts.poll_write_stalled(context).map(|()| {
                            server.record_timeout(TimeoutKind::Write);
                            ReadEvent::Closed
                        });
                    }
                }
                match buffered.poll_fill(context) {
                    Poll::Ready(Ok(1..)) => {}
                    Poll::Ready(_) => return Poll::Ready(ReadEvent::Closed),
                    Poll::Pending => break,
                }
            }
            if buffered.input.is_empty() && timeouts.poll_idle(server.park_after(), context).is_ready() {
                return Poll::Ready(ReadEvent::Idle);
            }
            timeouts.poll_timeout(context).map(|kind| {
                server.record_timeout(kind);
                ReadEvent::Closed
            })
        })
        .await
    }

    /// Polls a future until the client disconnects; then `None`. The caller pins it because it is large to move.
    async fn or_disconnect<T>(&mut self, mut responding: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        poll_fn(|context| match responding.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.poll_disconnect(context).map(|()| None),
        })
        .await
    }

    /// Ready when the client has disconnected or does not read its response. While the request body is being read,
    /// its reader detects a disconnect; afterwards it is detected here.
    pub(super) fn poll_disconnect(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Self { io, timeouts, server, .. } = self;
        let mut client_io = io.lock();
        if !client_io.buffered.is_flushed() {
            match client_io.buffered.poll_flush(context) {
                Poll::Ready(Ok(())) => timeouts.write_progressed(),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {
                    if timeouts.poll_write_stalled(context).is_ready() {
                        server.record_timeout(TimeoutKind::Write);
                        return Poll::Ready(());
                    }
                }
            }
        }
        if !client_io.is_request_read() {
            client_io.wake_when_request_read(context);
        }
        while client_io.is_request_read() && client_io.buffered.input.len() < MAX_READ_AHEAD {
            match client_io.buffered.poll_fill(context) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        Poll::Pending
    }

    /// Closes the connection once the client has closed its side, or the linger timeout expires.
    async fn linger(&mut self) {
        let Self { io, timeouts, .. } = self;
        let since = timeouts.now();
        let mut linger = LingeringClose::new(usize::MAX);
        poll_fn(|context| match linger.poll(io.lock().buffered.io_mut(), context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => timeouts.poll_after(since, LINGER_TIMEOUT, context),
        })
        .await;
    }
}

/// Starts the shutdown of the connection once the gateway stops.
fn check_shutdown(
    signal: &mut ShutdownSignal<'_>,
    shutdown: &watch::Receiver<()>,
    timeouts: &mut PhaseTimeouts,
    context: &mut Context<'_>,
) {
    if !timeouts.is_closing() && signal.poll(shutdown, context) {
        timeouts.begin_shutdown();
    }
}
