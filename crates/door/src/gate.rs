//! Who gets a place, who waits for one, and who is refused. Knows no sockets.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::limiter::Acquiring;
use sluicegate_engine::{Held, Limiter, Reason, Refused};

use crate::clients::{Client, Clients};
use crate::counts::{Counters, Why, add_one};
use crate::watchman::Patience;
use crate::workers::Workers;

/// What all listeners of a door share.
pub(crate) struct Gate {
    places: Limiter,
    clients: Clients,
    queue_wait: Duration,
    pub(crate) workers: Workers,
    pub(crate) patience: Patience,
    pub(crate) counters: Counters,
    pub(crate) clock: ClockHandle,
}

/// The place of a connection that is served. Dropping it gives it to the next. There are as many as there are
/// connections, most of them idle: it holds no more than it must.
pub(crate) struct Place {
    client: Counted,
    // Given back last, by being dropped: whoever enters next must find us gone.
    _held: Held,
}

/// How a connection fared on arrival.
pub(crate) enum Arrival {
    Entered(Place),
    Waits(InQueue),
    Refused(Why),
}

/// A connection's place in the queue. Dropping it leaves the queue.
pub(crate) struct InQueue {
    turn: Acquiring,
    client: Option<Counted>,
}

/// One connection of a client. Dropping it gives it back.
struct Counted {
    gate: Arc<Gate>,
    client: Client,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gate.clients.leave(self.client);
    }
}

impl Gate {
    pub(crate) fn new(
        places: Limiter,
        clients: Clients,
        workers: Workers,
        queue_wait: Duration,
        patience: Patience,
        clock: ClockHandle,
    ) -> Arc<Self> {
        Arc::new(Self { places, clients, queue_wait, workers, patience, counters: Counters::default(), clock })
    }

    pub(crate) fn queued(&self) -> usize {
        self.places.waiting()
    }

    /// Decides about a connection from `address`. Whoever has to wait wakes the context's task when its turn
    /// has come.
    pub(crate) fn arrive(self: &Arc<Self>, address: IpAddr, context: &mut Context<'_>) -> Arrival {
        // The client's own bound first: whoever is over it takes nobody's place in the queue.
        let Some(client) = self.clients.enter(address) else { return Arrival::Refused(Why::PerClient) };
        let turn = self.places.acquire().within(self.queue_wait).into_future();
        let mut queued = InQueue { turn, client: Some(Counted { gate: Arc::clone(self), client }) };
        match queued.poll(context) {
            Poll::Ready(Ok(place)) => Arrival::Entered(place),
            Poll::Ready(Err(why)) => Arrival::Refused(why),
            Poll::Pending => Arrival::Waits(queued),
        }
    }
}

impl InQueue {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Place, Why>> {
        Pin::new(&mut self.turn).poll(context).map(|turn| match turn {
            Ok(pass) => {
                // A turn comes once, so the client is still there.
                let client = self.client.take().ok_or(Why::Full)?;
                client.gate.counters.open.fetch_add(1, Ordering::Relaxed);
                add_one(&client.gate.counters.entered);
                Ok(Place { client, _held: pass.into_held() })
            }
            Err(Refused { reason: Reason::Deadline, .. }) => Err(Why::QueueWait),
            Err(_) => Err(Why::Full),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.client.gate.counters.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Connections of one listener that wait for a place, in the order they came. It is the order of the
/// gate's line too, so only the first can have its turn, and none can be out of time before it.
pub(crate) struct Queue<C> {
    waiting: VecDeque<(C, InQueue)>,
}

impl<C> Queue<C> {
    pub(crate) const fn new() -> Self {
        Self { waiting: VecDeque::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn push(&mut self, connection: C, place: InQueue) {
        self.waiting.push_back((connection, place));
    }

    /// The first one, once it is known how it fared.
    pub(crate) fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<(C, Result<Place, Why>)> {
        let Some((_, first)) = self.waiting.front_mut() else { return Poll::Pending };
        let Poll::Ready(fared) = first.poll(context) else { return Poll::Pending };
        match self.waiting.pop_front() {
            Some((connection, _)) => Poll::Ready((connection, fared)),
            None => Poll::Pending,
        }
    }

    /// Sends everybody away.
    pub(crate) fn clear(&mut self) -> impl Iterator<Item = C> + '_ {
        // From the end, so that nobody moves up only to leave.
        std::iter::from_fn(|| self.waiting.pop_back().map(|(connection, _)| connection))
    }
}
