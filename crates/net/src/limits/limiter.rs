//! Connection limiter: admits, queues or rejects connections. Does no I/O.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::limiter::AcquireFuture;
use sluicegate_engine::{AcquireError, Limiter, OwnedPermit, RefusalReason};

use super::counters::{ListenerCounters, RejectReason, increment};
use super::in_flight::InFlightLimit;
use super::per_client::{ClientKey, PerClientLimit};
use crate::timeouts::Timeouts;

/// Limiter state shared by all listeners of a server.
pub(crate) struct ConnectionLimiter {
    permits: Limiter,
    clients: PerClientLimit,
    queue_timeout: Duration,
    pub(crate) in_flight_limit: InFlightLimit,
    pub(crate) timeouts: Timeouts,
    pub(crate) counters: ListenerCounters,
    pub(crate) clock: ClockHandle,
}

/// Permit of a served connection. Dropping it admits the next one. There is one per connection, most of
/// them idle, so it is kept small.
pub(crate) struct ConnectionPermit {
    slot: ClientSlot,
    // Dropped last: the next admitted connection must find this one fully released.
    _permit: OwnedPermit,
}

/// Result of admitting a new connection.
pub(crate) enum ConnectionAdmission {
    Admitted(ConnectionPermit),
    Queued(QueuedConnection),
    Rejected(RejectReason),
}

/// Queue entry of a connection. Dropping it leaves the queue.
pub(crate) struct QueuedConnection {
    acquiring: AcquireFuture,
    slot: Option<ClientSlot>,
}

/// One counted connection of a client. Dropping it releases the count.
struct ClientSlot {
    limiter: Arc<ConnectionLimiter>,
    client: ClientKey,
}

impl Drop for ClientSlot {
    fn drop(&mut self) {
        self.limiter.clients.release(self.client);
    }
}

impl ConnectionLimiter {
    pub(crate) fn new(
        permits: Limiter,
        clients: PerClientLimit,
        in_flight_limit: InFlightLimit,
        queue_timeout: Duration,
        timeouts: Timeouts,
        clock: ClockHandle,
    ) -> Arc<Self> {
        Arc::new(Self {
            permits,
            clients,
            queue_timeout,
            in_flight_limit,
            timeouts,
            counters: ListenerCounters::default(),
            clock,
        })
    }

    pub(crate) fn queued(&self) -> usize {
        self.permits.waiting()
    }

    /// Decides about a connection from `address`. A queued connection wakes the context's task once it is
    /// decided.
    pub(crate) fn admit(self: &Arc<Self>, address: IpAddr, context: &mut Context<'_>) -> ConnectionAdmission {
        // The per-client limit is checked first: a client over its limit takes no queue slot.
        let Some(client) = self.clients.acquire(address) else {
            return ConnectionAdmission::Rejected(RejectReason::PerClient);
        };
        let acquiring = self.permits.acquire().within(self.queue_timeout).into_future();
        let mut queued = QueuedConnection { acquiring, slot: Some(ClientSlot { limiter: Arc::clone(self), client }) };
        match queued.poll(context) {
            Poll::Ready(Ok(permit)) => ConnectionAdmission::Admitted(permit),
            Poll::Ready(Err(reason)) => ConnectionAdmission::Rejected(reason),
            Poll::Pending => ConnectionAdmission::Queued(queued),
        }
    }
}

impl QueuedConnection {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<ConnectionPermit, RejectReason>> {
        Pin::new(&mut self.acquiring).poll(context).map(|acquiring| match acquiring {
            Ok(permit) => {
                // The permit is granted once, so the slot is still present.
                let client = self.slot.take().ok_or(RejectReason::Full)?;
                client.limiter.counters.open.fetch_add(1, Ordering::Relaxed);
                increment(&client.limiter.counters.admitted);
                Ok(ConnectionPermit { slot: client, _permit: permit.into_owned_permit() })
            }
            Err(AcquireError { reason: RefusalReason::Deadline, .. }) => Err(RejectReason::QueueTimeout),
            Err(_) => Err(RejectReason::Full),
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.slot.limiter.counters.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Queued connections of one listener, in arrival order. That is also the order of the limiter's queue, so
/// only the first can be admitted, and none can time out before it.
pub(crate) struct ConnectionQueue<C> {
    waiting: VecDeque<(C, QueuedConnection)>,
}

impl<C> ConnectionQueue<C> {
    pub(crate) const fn new() -> Self {
        Self { waiting: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, connection: C, queued: QueuedConnection) {
        self.waiting.push_back((connection, queued));
    }

    /// Returns the first connection once it is decided.
    pub(crate) fn poll_front(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<(C, Result<ConnectionPermit, RejectReason>)> {
        let Some((_, first)) = self.waiting.front_mut() else { return Poll::Pending };
        let Poll::Ready(result) = first.poll(context) else { return Poll::Pending };
        match self.waiting.pop_front() {
            Some((connection, _)) => Poll::Ready((connection, result)),
            None => Poll::Pending,
        }
    }

    /// Removes all connections.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = C> + '_ {
        // From the back, so that no connection moves up only to be removed.
        std::iter::from_fn(|| self.waiting.pop_back().map(|(connection, _)| connection))
    }
}
