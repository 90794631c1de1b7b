//! Upstream connection pool of one worker: idle connections, retries, and the choice of server.
//!
//! Each worker has its own pools, so there is no lock contention between workers, and a response is read by the
//! thread that sent the request.
//!
//! A request is retried on another server only if that is safe: if the first server cannot have seen any of it,
//! or if it is idempotent ([`Method::is_idempotent`]) and has no body.

mod deadline;
mod h1;
mod h2;
mod response_body;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use parking_lot::Mutex;
use sluicegate_config::settings::UpstreamProtocol;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http1::{HeaderMode, ResponseHead};
use sluicegate_net::LazyTimer;

use crate::error::ProxyError;
use crate::request_body::RequestBody;
use crate::upstream::{Attempt, AttemptedServers, Server, Upstream};
pub(crate) use deadline::ResponseDeadline;
pub(crate) use h1::H1Connection;
use h2::H2Connection;
use response_body::BodySource;
pub(crate) use response_body::{ResponseBodyError, UpstreamBody};

/// Maximum number of idle connections per server and worker.
const MAX_IDLE_PER_SERVER: usize = 256;

/// Connection pool of one upstream.
pub(crate) struct UpstreamPool {
    upstream: Arc<Upstream>,
    clock: ClockHandle,
    /// Idle connections by server; the most recently used is last.
    #[expect(clippy::vec_box, reason = "they are large and move with every request")]
    idle: Vec<Mutex<Vec<Box<H1Connection>>>>,
    /// HTTP/2 connections by server.
    h2: Vec<H2Connection>,
}

/// A request to be sent to a server.
pub(crate) struct OutgoingRequest {
    pub(crate) request: Request<RequestBody>,
    /// Additional raw header lines, each with its CRLF. Empty for HTTP/2 upstreams.
    pub(crate) raw_headers: Bytes,
    /// Representation of the response headers.
    pub(crate) header_mode: HeaderMode,
    /// Set if the request asks to switch protocols: it needs a connection of its own.
    pub(crate) is_upgrade: bool,
}

/// A response from an upstream.
pub(crate) struct UpstreamResponse {
    pub(crate) status: StatusCode,
    pub(crate) head: ResponseHead,
    pub(crate) body: UpstreamBody,
}

/// A request without a response.
pub(crate) struct SendFailure {
    pub(crate) error: ProxyError,
    pub(crate) timer: LazyTimer,
}

/// Error while sending a request to a server.
pub(crate) enum SendError {
    /// Nothing of the request was sent.
    NotSent,
    /// Nothing of the request was sent, because connecting failed.
    Connect {
        /// Set if connecting timed out.
        timed_out: bool,
    },
    /// The server is at its connection limit, and no permit became free in time.
    NoPermit,
    /// The server closed the connection or sent an invalid response.
    BadResponse,
    /// The response timed out.
    Timeout,
    /// The client did not send its whole request.
    RequestAborted,
}

impl SendError {
    /// Attributes the error to the client if the request body caused it.
    fn attribute(self, deadline: &ResponseDeadline) -> Self {
        if matches!(self, Self::BadResponse | Self::Timeout) && deadline.is_client_error() {
            Self::RequestAborted
        } else {
            self
        }
    }

    /// True if the error counts against the server.
    const fn counts_against_server(&self) -> bool {
        !matches!(self, Self::NoPermit | Self::RequestAborted)
    }
}

impl UpstreamPool {
    pub(crate) fn new(upstream: Arc<Upstream>, clock: ClockHandle) -> Arc<Self> {
        let servers = upstream.servers().len();
        let idle = (0..servers).map(|_| Mutex::default()).collect();
        let h2 = (0..servers).map(|_| H2Connection::default()).collect();
        Arc::new(Self { upstream, clock, idle, h2 })
    }

    pub(crate) const fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    pub(super) fn body_timeout(&self) -> Duration {
        self.upstream.settings().timeouts.body
    }

    /// Sends a request to a server, and retries on others as far as that is safe. `address` is called before each
    /// attempt, to set the server's address.
    pub(crate) async fn send(
        self: &Arc<Self>,
        outgoing: &mut OutgoingRequest,
        mut address: impl FnMut(&mut Request<RequestBody>, &Arc<Server>),
        mut timer: LazyTimer,
    ) -> Result<UpstreamResponse, SendFailure> {
        let settings = self.upstream.settings();
        let upstream = || settings.name.clone();
        let request = &outgoing.request;
        // A request to switch protocols is tried once.
        let retries = if outgoing.is_upgrade { 0 } else { settings.retries };
        let may_retry = retries > 0 && request.method().is_idempotent() && request.body().is_empty();
        let body_status = request.body().status();
        let mut attempted = AttemptedServers::default();
        let mut error = None;
        for _ in 0..=retries {
            let Some(attempt) = self.upstream.pick(&attempted) else { break };
            let server = attempt.server();
            attempted.add(server);
            address(&mut outgoing.request, server);
            let mut deadline = ResponseDeadline::new(self.clock.now(), settings.timeouts.response, body_status.clone());
            let send_error = match self.send_to(outgoing, may_retry, &attempt, &mut deadline, &mut timer).await {
                Ok((status, head, source)) => {
                    attempt.succeeded();
                    let body = match status {
                        StatusCode::SWITCHING_PROTOCOLS => {
                            UpstreamBody::switched(source, Arc::clone(self), attempt, timer)
                        }
                        _ => UpstreamBody::new(source, Arc::clone(self), attempt, timer),
                    };
                    return Ok(UpstreamResponse { status, head, body });
                }
                Err(send_error) => send_error.attribute(&deadline),
            };
            if send_error.counts_against_server() {
                attempt.failed();
            }
            let (cause, retry) = match send_error {
                SendError::NoPermit => (ProxyError::AtCapacity, false),
                SendError::NotSent | SendError::Connect { timed_out: false } => {
                    (ProxyError::ConnectFailed { upstream: upstream() }, true)
                }
                SendError::Connect { timed_out: true } => (ProxyError::UpstreamTimeout { upstream: upstream() }, true),
                SendError::BadResponse => (ProxyError::BadResponse { upstream: upstream() }, may_retry),
                SendError::Timeout => (ProxyError::UpstreamTimeout { upstream: upstream() }, false),
                SendError::RequestAborted => (ProxyError::BadRequest("the request body was aborted"), false),
            };
            error = Some(cause);
            if !retry {
                break;
            }
        }
        let error = error.unwrap_or_else(|| ProxyError::NoHealthyServer { upstream: upstream() });
        Err(SendFailure { error, timer })
    }

    /// Sends a request to one server.
    async fn send_to(
        self: &Arc<Self>,
        outgoing: &mut OutgoingRequest,
        may_retry: bool,
        attempt: &Attempt,
        deadline: &mut ResponseDeadline,
        timer: &mut LazyTimer,
    ) -> Result<(StatusCode, ResponseHead, BodySource), SendError> {
        let server = attempt.server();
        if self.upstream.settings().protocol == UpstreamProtocol::Http2 {
            // Boxed, here and below: rarely used futures must not enlarge every request.
            let request = &mut outgoing.request;
            let response =
                Box::pin(self.h2[server.position()].send(server, request, may_retry, deadline, timer)).await?;
            let (head, body) = response.into_parts();
            return Ok((head.status, head.headers.into(), BodySource::H2(body)));
        }
        // Connections closed by the server are found one by one; then a new one is made.
        while !outgoing.is_upgrade
            && let Some(mut connection) = self.take_idle(server.position())
        {
            match connection.send(outgoing, deadline, timer).await {
                Ok(response) => return Ok((response.status, response.head, BodySource::H1(connection))),
                Err(SendError::NotSent) => {}
                // Probably the server closed it at that moment, which is not a failure. If this request caused it, it must not
                // break the other idle connections too: the next try uses a new one.
                Err(SendError::BadResponse) if may_retry => break,
                Err(error) => return Err(error),
            }
        }
        let mut connection = Box::pin(self.connect(server, deadline.at(), timer)).await?;
        let response = connection.send(outgoing, deadline, timer).await?;
        Ok((response.status, response.head, BodySource::H1(connection)))
    }

    /// Opens a new connection.
    async fn connect(
        &self,
        server: &Server,
        deadline: Timestamp,
        timer: &mut LazyTimer,
    ) -> Result<Box<H1Connection>, SendError> {
        let Some(permit) = timer.within(deadline, server.acquire_permit()).await else {
            return Err(SendError::NoPermit);
        };
        let connected = server.connect().await;
        let stream = connected.map_err(|error| SendError::Connect { timed_out: error.is_timeout() })?;
        Ok(H1Connection::new(stream, permit, self.clock.now()))
    }

    fn take_idle(&self, server: usize) -> Option<Box<H1Connection>> {
        self.idle[server].lock().pop()
    }

    /// Returns a connection to the pool after its response was read.
    fn put_back(&self, server: usize, mut connection: Box<H1Connection>) {
        if connection.is_permit_wanted() || !connection.is_reusable() {
            // Its permit is wanted, the request is still being sent, or the server closes it.
            return;
        }
        connection.last_used = self.clock.now();
        let mut idle = self.idle[server].lock();
        if idle.len() < MAX_IDLE_PER_SERVER {
            idle.push(connection);
        }
    }

    /// Closes connections that exceeded the idle timeout, that the server closed, or whose permit is wanted.
    pub(crate) fn sweep(&self) {
        let now = self.clock.now();
        for idle in &self.idle {
            let idle_timeout = self.upstream.settings().timeouts.idle;
            idle.lock().retain_mut(|connection| {
                now < connection.last_used + idle_timeout
                    && !connection.is_permit_wanted()
                    && connection.is_still_reusable()
            });
        }
    }
}
