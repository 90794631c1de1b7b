//! Listener that accepts connections from the kernel and returns those that are admitted.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluicegate_engine::clock::Sleep;
use tokio::net::{TcpListener, UnixListener};

use super::connection_limits::ConnectionLimits;
use super::reject::Rejector;
use super::socket::ListenerSocket;
use crate::connection::{AsyncSocket, Connection, ConnectionServer};
use crate::limits::{
    ConnectionAdmission, ConnectionLimiter, ConnectionQueue, InFlightLimit, ListenerHandle, RejectReason, increment,
};

/// Pause after a failed accept, for example because this process has too many files open.
const ACCEPT_ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of pending connections in the backlog that are rejected on shutdown.
const MAX_SHUTDOWN_REJECTIONS: usize = 4_096;

/// A listener with connection limits and timeouts. See the [crate documentation](crate).
pub struct LimitedListener {
    listener: ListenerSocket,
    limits: ConnectionLimits,
    queue: ConnectionQueue<(AsyncSocket, SocketAddr)>,
    rejector: Rejector,
    pause: Option<Sleep>,
}

impl ConnectionLimits {
    /// Wraps a TCP listener. All limits and counters are shared.
    pub fn wrap_tcp(&self, listener: TcpListener) -> LimitedListener {
        LimitedListener::new(ListenerSocket::Tcp(listener), self.clone())
    }

    /// Wraps a Unix listener under the same limits. All its peers count as one client.
    pub fn wrap_unix(&self, listener: UnixListener) -> LimitedListener {
        LimitedListener::new(ListenerSocket::Unix(listener), self.clone())
    }
}

impl LimitedListener {
    fn new(listener: ListenerSocket, limits: ConnectionLimits) -> Self {
        let rejector = Rejector::new(limits.reject_mode, limits.limiter.clock.clone());
        Self { listener, limits, queue: ConnectionQueue::new(), rejector, pause: None }
    }

    /// Adds a listener under the same limits: all limits and counters are shared. For servers with one listener per
    /// core (`SO_REUSEPORT`), or with several addresses.
    ///
    /// ```
    /// use sluicegate_net::LimitedListener;
    /// use tokio::net::{TcpListener, UnixListener};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let listener = LimitedListener::builder().max_connections(100).queue(0).bind("127.0.0.1:0").await?;
    /// let other = listener.add_listener(TcpListener::bind("127.0.0.1:0").await?);
    /// assert_ne!(listener.local_addr()?, other.local_addr()?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_listener(&self, listener: TcpListener) -> Self {
        self.limits.wrap_tcp(listener)
    }

    /// Local address; for a Unix socket, the loopback address without a port.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns a handle for reading the counters.
    pub fn handle(&self) -> ListenerHandle {
        ListenerHandle::new(Arc::clone(&self.limits.limiter))
    }

    /// Returns the in-flight request limit as a tower layer. [`LimitedListener::serve`] applies it itself; this
    /// is for servers that use only the listener.
    pub fn in_flight_limit(&self) -> InFlightLimit {
        self.limits.limiter.in_flight_limit.clone()
    }

    /// Returns a server for single connections, for servers that run their own accept loop.
    pub fn connection_server(&self) -> ConnectionServer {
        ConnectionServer::new(Arc::clone(&self.limits.limiter), self.limits.http)
    }

    /// Accepts the next admitted connection. It holds its permit until it is dropped.
    ///
    /// The queue advances only while this future is polled, and a listener that is not polled blocks the queue of
    /// [all listeners](Self::add_listener) that share its limits. The future is cancel-safe. Accept errors are
    /// counted and do not end the listener.
    pub async fn accept(&mut self) -> Connection {
        poll_fn(|context| self.poll_accept(context)).await
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<Connection> {
        while let Poll::Ready(((stream, peer), admission)) = self.queue.poll_front(context) {
            match admission {
                Ok(permit) => return Poll::Ready(Connection::new(stream, peer, permit)),
                Err(reason) => self.reject(stream, reason),
            }
        }
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(Pin::new(pause).poll(context));
                self.pause = None;
            }
            match ready!(self.listener.poll_accept(context)) {
                Ok((stream, peer)) => {
                    increment(&self.limits.limiter.counters.accepted);
                    match self.limits.limiter.admit(peer.ip(), context) {
                        ConnectionAdmission::Admitted(permit) => {
                            return Poll::Ready(Connection::new(stream, peer, permit));
                        }
                        ConnectionAdmission::Queued(permit) => self.queue.push((stream, peer), permit),
                        ConnectionAdmission::Rejected(reason) => self.reject(stream, reason),
                    }
                }
                // This connection was closed before it was accepted.
                Err(error) if is_per_connection_error(&error) => {}
                Err(_) => {
                    increment(&self.limits.limiter.counters.accept_errors);
                    self.pause = Some(self.limits.limiter.clock.sleep(ACCEPT_ERROR_PAUSE));
                }
            }
        }
    }

    /// Accepts the next queued connection without taking new ones from the kernel. `None` once the queue is
    /// empty. For servers that hand over their listener to another process.
    pub async fn accept_queued(&mut self) -> Option<Connection> {
        poll_fn(|context| {
            while !self.queue.is_empty() {
                let ((stream, peer), admission) = ready!(self.queue.poll_front(context));
                match admission {
                    Ok(permit) => return Poll::Ready(Some(Connection::new(stream, peer, permit))),
                    Err(reason) => self.reject(stream, reason),
                }
            }
            Poll::Ready(None)
        })
        .await
    }

    /// Closes the listener. All connections that are not admitted are rejected: queued ones, and those still in
    /// the kernel's backlog.
    pub async fn close(mut self) {
        let reject_pending = poll_fn(|context| {
            self.reject_pending(context);
            Poll::Ready(())
        });
        // In one poll, regardless of their number.
        tokio::task::unconstrained(reject_pending).await;
        self.into_rejector().wait_all_closed().await;
    }

    fn reject(&mut self, stream: AsyncSocket, reason: RejectReason) {
        self.limits.limiter.counters.record_rejected(reason);
        self.rejector.reject(stream);
    }

    /// Rejects all connections that are not admitted: queued ones, and those still in the kernel's backlog.
    pub(crate) fn reject_pending(&mut self, context: &mut Context<'_>) {
        self.reject_queued();
        for _ in 0..MAX_SHUTDOWN_REJECTIONS {
            match self.listener.poll_accept(context) {
                Poll::Ready(Ok((stream, _))) => {
                    increment(&self.limits.limiter.counters.accepted);
                    self.reject(stream, RejectReason::Closing);
                }
                Poll::Ready(Err(error)) if is_per_connection_error(&error) => {}
                Poll::Ready(Err(_)) | Poll::Pending => return,
            }
        }
    }

    fn reject_queued(&mut self) {
        for (stream, _) in self.queue.drain() {
            self.limits.limiter.counters.record_rejected(RejectReason::Closing);
            self.rejector.reject(stream);
        }
    }

    pub(crate) fn limiter(&self) -> &Arc<ConnectionLimiter> {
        &self.limits.limiter
    }

    /// Closes the listener and returns the rejector with the rejected connections that are still lingering.
    pub(crate) fn into_rejector(mut self) -> Rejector {
        let empty = Rejector::new(self.rejector.mode(), self.limits.limiter.clock.clone());
        std::mem::replace(&mut self.rejector, empty)
    }
}

impl Drop for LimitedListener {
    fn drop(&mut self) {
        self.reject_queued();
    }
}

/// True if an accept error concerns one connection only, so the next accept may succeed. The kernel reports
/// pending network errors of a connection when it is accepted.
fn is_per_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::ConnectionAborted
            | Kind::ConnectionReset
            | Kind::ConnectionRefused
            | Kind::Interrupted
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
            | Kind::TimedOut
    )
}

impl fmt::Debug for LimitedListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitedListener").field("listener", &self.listener).finish_non_exhaustive()
    }
}
