//! Builder for `LimitedListener` and `ConnectionLimits`.

use std::time::Duration;

use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::{Limit, Limiter};
use tokio::net::{TcpListener, TcpSocket, ToSocketAddrs, lookup_host};

use super::connection_limits::ConnectionLimits;
use super::error::ListenerError;
use super::fd_limit;
use super::limited_listener::LimitedListener;
use super::reject::RejectMode;
use crate::connection::HttpLimits;
use crate::limits::{ConnectionLimiter, InFlightLimit, PerClientLimit};
use crate::timeouts::Timeouts;

/// Default for `max_connections`, if the open-file limit allows it.
const MAX_CONNECTIONS: usize = 10_000;

/// Upper bound for every configured count.
const MAX_COUNT: usize = u32::MAX as usize;

/// Builder for a [`LimitedListener`].
///
/// ```
/// use std::time::Duration;
/// use sluicegate_net::{LimitedListener, RejectMode};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), sluicegate_net::ListenerError> {
/// let listener = LimitedListener::builder()
///     .max_connections(200)
///     .queue(50)
///     .queue_timeout(Duration::from_secs(5))
///     .per_client(20)
///     .in_flight(40)
///     .header_timeout(Duration::from_secs(10))
///     .reject_mode(RejectMode::Http503)
///     .bind("127.0.0.1:0")
///     .await?;
///
/// let bound = LimitedListener::builder().max_connections(0).bind("127.0.0.1:0").await;
/// let error = bound.err().map(|error| error.to_string());
/// assert_eq!(error.as_deref(), Some("max_connections is zero: it must be at least 1 (to accept no connections, remove the listener)"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ListenerBuilder {
    max_connections: Option<usize>,
    queue: usize,
    queue_timeout: Duration,
    per_client: Option<usize>,
    in_flight: Option<usize>,
    in_flight_timeout: Option<Duration>,
    header_timeout: Duration,
    keep_alive: Duration,
    write_timeout: Duration,
    drain_grace: Duration,
    header_bytes: usize,
    max_streams: u32,
    allow_upgrades: bool,
    backlog: u32,
    reject_mode: RejectMode,
    clock: ClockHandle,
}

impl Default for ListenerBuilder {
    fn default() -> Self {
        Self {
            max_connections: None,
            queue: 500,
            queue_timeout: Duration::from_secs(10),
            per_client: None,
            in_flight: None,
            in_flight_timeout: None,
            header_timeout: Duration::from_secs(10),
            keep_alive: Duration::from_secs(60),
            write_timeout: Duration::from_secs(60),
            drain_grace: Duration::ZERO,
            header_bytes: 64 << 10,
            max_streams: 200,
            allow_upgrades: true,
            backlog: 1_024,
            reject_mode: RejectMode::default(),
            clock: ClockHandle::system(),
        }
    }
}

impl LimitedListener {
    /// Returns a builder for limits, timeouts and the clock.
    pub fn builder() -> ListenerBuilder {
        ListenerBuilder::default()
    }
}

impl ListenerBuilder {
    /// Maximum number of connections served at once. Default: 10,000, or as many as the open-file limit allows.
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = Some(connections);
        self
    }

    /// Maximum number of connections that wait for a permit, first in, first out, unread. Default: 500. With 0,
    /// a connection that finds no permit is rejected at once.
    pub fn queue(mut self, connections: usize) -> Self {
        self.queue = connections;
        self
    }

    /// Maximum time a connection waits in the queue. Default: 10 seconds.
    pub fn queue_timeout(mut self, timeout: Duration) -> Self {
        self.queue_timeout = timeout;
        self
    }

    /// Maximum number of connections per client, served and queued together. Default: unlimited. A client is an
    /// IPv4 address or an IPv6 /64.
    pub fn per_client(mut self, connections: usize) -> Self {
        self.per_client = Some(connections);
        self
    }

    /// Maximum number of requests in flight over all connections. Default: unlimited. Further requests wait in
    /// their connections, first in, first out. See [`InFlightLimit`].
    pub fn in_flight(mut self, requests: usize) -> Self {
        self.in_flight = Some(requests);
        self
    }

    /// Maximum time a request waits for an in-flight permit before it gets a 503. Default: no timeout.
    pub fn in_flight_timeout(mut self, timeout: Duration) -> Self {
        self.in_flight_timeout = Some(timeout);
        self
    }

    /// Maximum time for a request head, from its first byte to its last; for the first request, from the time
    /// the connection is admitted. Default: 10 seconds. Applies to [`LimitedListener::serve`].
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.header_timeout = timeout;
        self
    }

    /// Maximum idle time between two requests. Default: 60 seconds. Applies to [`LimitedListener::serve`].
    pub fn keep_alive(mut self, timeout: Duration) -> Self {
        self.keep_alive = timeout;
        self
    }

    /// Maximum time a client may pause reading a response that has more data. Default: 60 seconds. A service
    /// that is slow to respond is not affected. Applies to [`LimitedListener::serve`].
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.write_timeout = timeout;
        self
    }

    /// Time an idle HTTP/1 connection stays open on shutdown, for a request that is already on its way: it is
    /// served, and its response announces the close. Default: zero, which closes idle connections at once and
    /// loses such a request.
    pub fn drain_grace(mut self, grace: Duration) -> Self {
        self.drain_grace = grace;
        self
    }

    /// Maximum size of a request head in bytes. Default: 64 KiB; minimum: 8 KiB. Applies to
    /// [`LimitedListener::serve`].
    pub fn header_bytes(mut self, bytes: usize) -> Self {
        self.header_bytes = bytes;
        self
    }

    /// Maximum number of concurrent streams per HTTP/2 connection. Default: 200. Applies to
    /// [`LimitedListener::serve`].
    pub fn max_streams(mut self, streams: u32) -> Self {
        self.max_streams = streams;
        self
    }

    /// If set, HTTP/2 clients may request extended CONNECT tunnels, as WebSocket does (RFC 8441). Default:
    /// true. The service decides about each request.
    pub fn allow_upgrades(mut self, allowed: bool) -> Self {
        self.allow_upgrades = allowed;
        self
    }

    /// Listen backlog: connections the kernel may hold before they are accepted. Default: 1,024, capped by the
    /// kernel.
    pub fn backlog(mut self, connections: u32) -> Self {
        self.backlog = connections;
        self
    }

    /// Sets the response to rejected connections.
    pub fn reject_mode(mut self, mode: RejectMode) -> Self {
        self.reject_mode = mode;
        self
    }

    /// Uses this clock instead of the system clock.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Binds an address. With port 0 the system chooses a port: see [`LimitedListener::local_addr`].
    pub async fn bind(self, address: impl ToSocketAddrs) -> Result<LimitedListener, ListenerError> {
        self.validated_max_connections()?;
        let listener = bind_listener(address, self.backlog).await?;
        self.with_listener(listener)
    }

    /// Wraps an existing listener; its backlog stays as it is.
    pub fn with_listener(self, listener: TcpListener) -> Result<LimitedListener, ListenerError> {
        Ok(self.build_limits()?.wrap_tcp(listener))
    }

    /// Builds the limits without a listener. Each listener must be created in the runtime that serves it.
    pub fn build_limits(self) -> Result<ConnectionLimits, ListenerError> {
        let max_connections = self.validated_max_connections()?;
        let in_flight_limit =
            InFlightLimit::new(self.in_flight, max_connections, self.in_flight_timeout, self.clock.clone())
                .map_err(|_| zero_error("in_flight"))?;
        let limiter = ConnectionLimiter::new(
            Limiter::builder()
                // At least one, as validated.
                .limit(Limit::concurrency(max_connections as u64).map_err(|_| zero_error("max_connections"))?)
                .max_waiting(self.queue)
                .max_waiting_total(self.queue)
                .clock(self.clock.clone())
                .build()
                .map_err(|_| zero_error("max_connections"))?,
            PerClientLimit::new(self.per_client),
            in_flight_limit,
            self.queue_timeout,
            Timeouts {
                head: self.header_timeout,
                idle: self.keep_alive,
                write: self.write_timeout,
                drain_grace: self.drain_grace,
            },
            self.clock,
        );
        Ok(ConnectionLimits {
            limiter,
            reject_mode: self.reject_mode,
            http: HttpLimits {
                header_bytes: self.header_bytes,
                max_streams: self.max_streams,
                allow_upgrades: self.allow_upgrades,
            },
        })
    }

    /// Validates all settings and returns the connection limit.
    fn validated_max_connections(&self) -> Result<usize, ListenerError> {
        let counts = [
            ("max_connections", self.max_connections),
            ("per_client", self.per_client),
            ("in_flight", self.in_flight),
            ("max_streams", Some(self.max_streams as usize)),
        ];
        for (field, value) in counts {
            if value == Some(0) {
                return Err(zero_error(field));
            }
        }
        for (field, value) in counts.into_iter().chain([("queue", Some(self.queue))]) {
            if let Some(value) = value.filter(|value| *value > MAX_COUNT) {
                return Err(ListenerError::TooLarge { field, value, max: MAX_COUNT });
            }
        }
        let durations = [
            ("header_timeout", self.header_timeout),
            ("keep_alive", self.keep_alive),
            ("write_timeout", self.write_timeout),
        ];
        for (field, time) in durations {
            if time.is_zero() {
                return Err(ListenerError::ZeroDuration { field });
            }
        }
        resolve_max_connections(self.max_connections, self.queue, fd_limit::open_file_limit())
    }
}

/// Resolves the connection limit against the open-file limit of the process.
fn resolve_max_connections(wanted: Option<usize>, queue: usize, limit: Option<usize>) -> Result<usize, ListenerError> {
    let Some(limit) = limit else { return Ok(wanted.unwrap_or(MAX_CONNECTIONS)) };
    let available = limit.saturating_sub(queue).saturating_sub(fd_limit::RESERVED_FDS);
    let max_connections = wanted.unwrap_or_else(|| available.clamp(1, MAX_CONNECTIONS));
    if max_connections <= available {
        return Ok(max_connections);
    }
    let needed = max_connections.saturating_add(queue).saturating_add(fd_limit::RESERVED_FDS);
    Err(ListenerError::TooFewFiles { max_connections, queue, needed, limit })
}

fn zero_error(field: &'static str) -> ListenerError {
    let remedy = match field {
        "max_connections" => "to accept no connections, remove the listener",
        _ => "for no limit, omit it",
    };
    ListenerError::Zero { field, remedy }
}

async fn bind_listener(address: impl ToSocketAddrs, backlog: u32) -> Result<TcpListener, ListenerError> {
    let failed = |address: String| move |source| ListenerError::Listen { address, source };
    let mut last = None;
    for address in lookup_host(address).await.map_err(failed("the given address".to_owned()))? {
        let bound = || {
            let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            // SO_REUSEADDR: a restarted server must not wait for connections of its predecessor.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(backlog)
        };
        match bound() {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(failed(address.to_string())(error)),
        }
    }
    Err(last.unwrap_or_else(|| failed("the given address".to_owned())(std::io::ErrorKind::AddrNotAvailable.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn max_connections_fits_the_open_file_limit() {
        assert_eq!(resolve_max_connections(None, 500, None).unwrap(), 10_000);
        assert_eq!(resolve_max_connections(Some(50_000), 500, None).unwrap(), 50_000);
        assert_eq!(resolve_max_connections(None, 500, Some(100_000)).unwrap(), 10_000);
        // The default adapts to the limit; an explicit number is used as given or rejected.
        assert_eq!(resolve_max_connections(None, 500, Some(1_024)).unwrap(), 1_024 - 500 - fd_limit::RESERVED_FDS);
        let error = resolve_max_connections(Some(1_000), 500, Some(1_024)).unwrap_err().to_string();
        assert_eq!(
            error,
            "1000 connections and a queue of 500 need 1820 file descriptors, but the limit of this process is 1024: \
             raise it (ulimit -n) or lower the settings"
        );
        assert!(resolve_max_connections(None, usize::MAX, Some(1_024)).is_err());
    }
}
