//! One destination: its pacer, and the queue of waiting calls.
//!
//! First in, first out: the first in the queue checks the pacer, the others wait for it to leave. A
//! call that may be sent is a [`CallSlot`]; once sent it is an [`InFlightCall`], until its response
//! arrives. Dropping either informs the pacer, exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_http_adapter::server_hints::ServerHints;

use super::pacer::{BlockReason, Pace, Pacer, SendRecord};

/// A destination. Kept alive by calls in flight to it and calls waiting for it.
#[derive(Debug)]
pub(super) struct Destination {
    name: Arc<str>,
    state: Mutex<DestinationQueue>,
}

#[derive(Debug)]
struct DestinationQueue {
    pacer: Pacer,
    queue: BTreeMap<QueueTicket, Waker>,
    last_ticket: u64,
}

/// A position in the queue, by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueueTicket(u64);

/// Reason why a call cannot be sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocked {
    /// Queued. To be woken at this time, if not before.
    Wait(Timestamp),
    /// The call could only be sent at this time, after its deadline.
    DeadlineExceeded(Timestamp, BlockReason),
    /// The queue is full; the call could be sent at this time.
    QueueFull(Timestamp),
}

/// Bounds of waiting calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitBounds {
    pub(super) deadline: Timestamp,
    pub(super) max_waiting: usize,
}

/// Observable state of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationState {
    /// The service, or host and port.
    pub name: String,
    /// Time for which nothing is sent, at the server's request.
    pub blocked_for: Option<Duration>,
    /// Remaining requests, as reported by the server or assumed after a reset, and the time
    /// for which that holds.
    pub remaining: Option<(u64, Duration)>,
    /// Requests in flight.
    pub in_flight: u64,
    /// Queued requests.
    pub waiting: usize,
}

impl Destination {
    pub(super) fn new(name: Arc<str>, pace: Pace, max: Duration) -> Arc<Self> {
        let state = DestinationQueue { pacer: Pacer::new(pace, max), queue: BTreeMap::new(), last_ticket: 0 };
        Arc::new(Self { name, state: Mutex::new(state) })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A ticket for a new call; not queued yet.
    pub(super) fn new_ticket(&self) -> QueueTicket {
        let mut state = self.state.lock();
        state.last_ticket += 1;
        QueueTicket(state.last_ticket)
    }

    /// Claims a slot for the call with this ticket, or queues it.
    pub(super) fn try_claim(
        self: &Arc<Self>,
        ticket: QueueTicket,
        now: Timestamp,
        bounds: WaitBounds,
        waker: &Waker,
    ) -> Result<CallSlot, Blocked> {
        let mut state = self.state.lock();
        let ahead = state.queue.range(..ticket).count();
        let (send_at, reason) = if ahead == 0 {
            match state.pacer.send(now) {
                Ok(mark) => {
                    let left = state.queue.remove(&ticket);
                    let next = state.first();
                    drop(state);
                    drop(left);
                    wake(next);
                    return Ok(CallSlot { destination: Arc::clone(self), record: Some(mark) });
                }
                Err(blocked) => blocked,
            }
        } else {
            state.pacer.next_send_time(now, ahead as u64)
        };
        let is_queued = state.queue.contains_key(&ticket);
        let refused = if send_at > bounds.deadline {
            Some(Blocked::DeadlineExceeded(send_at, reason))
        } else if !is_queued && ahead >= bounds.max_waiting {
            Some(Blocked::QueueFull(send_at))
        } else {
            None
        };
        if let Some(refused) = refused {
            drop(state);
            self.leave(ticket);
            return Err(refused);
        }
        let outdated = state.queue.insert(ticket, waker.clone());
        drop(state);
        drop(outdated);
        // Behind others: they wake this call when they leave, unless the deadline passes first.
        Err(Blocked::Wait(if ahead == 0 { send_at } else { bounds.deadline + Duration::from_nanos(1) }))
    }

    /// Leaves the queue; does nothing if not queued.
    pub(super) fn leave(&self, ticket: QueueTicket) {
        let mut state = self.state.lock();
        let left = state.queue.remove(&ticket);
        let next = left.as_ref().and_then(|_| state.first());
        drop(state);
        drop(left);
        wake(next);
    }

    /// Applies a hold requested by a response.
    pub(super) fn hold(&self, hold: Duration, jitter: Duration, now: Timestamp) {
        self.update(|pacer| pacer.hold(hold, jitter, now));
    }

    /// Updates the pacer and wakes affected calls: all if a new hold applies,
    /// since some may now exceed their deadline; else the first, which may be able to go.
    fn update(&self, change: impl FnOnce(&mut Pacer) -> bool) {
        let mut state = self.state.lock();
        let concerned = if change(&mut state.pacer) { usize::MAX } else { 1 };
        let wakers: Vec<Waker> = state.queue.values().take(concerned).cloned().collect();
        drop(state);
        wake(wakers);
    }

    pub(super) fn state(&self, now: Timestamp) -> DestinationState {
        let state = self.state.lock();
        DestinationState {
            name: self.name.to_string(),
            blocked_for: state.pacer.blocked_until(now).map(|until| until - now),
            remaining: state.pacer.remaining(now).map(|(left, until)| (left, until - now)),
            in_flight: state.pacer.in_flight(),
            waiting: state.queue.len(),
        }
    }

    /// Time at which all hints of its responses have expired.
    pub(super) fn recovered_at(&self) -> Timestamp {
        self.state.lock().pacer.recovered_at()
    }
}

impl DestinationQueue {
    fn first(&self) -> Option<Waker> {
        self.queue.first_key_value().map(|(_, waker)| waker.clone())
    }
}

/// Wakers are foreign code: they are called without the lock.
fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// A claimed slot for a call. Dropping it cancels the send without a trace.
#[derive(Debug)]
pub(super) struct CallSlot {
    destination: Arc<Destination>,
    record: Option<SendRecord>,
}

impl CallSlot {
    /// Marks the call as sent, unless a hold arrived meanwhile.
    pub(super) fn send(mut self, now: Timestamp) -> Option<InFlightCall> {
        if !self.destination.state.lock().pacer.may_send(now) {
            return None;
        }
        let record = self.record.take();
        Some(InFlightCall { destination: Arc::clone(&self.destination), record })
    }
}

impl Drop for CallSlot {
    fn drop(&mut self) {
        if let Some(record) = self.record.take() {
            self.destination.update(|pacer| {
                pacer.cancel_send(&record);
                false
            });
        }
    }
}

/// A call in flight. Dropped, it ended without a response.
#[derive(Debug)]
pub(super) struct InFlightCall {
    destination: Arc<Destination>,
    record: Option<SendRecord>,
}

impl InFlightCall {
    /// Applies the hints of its response.
    pub(super) fn on_response(mut self, hints: &ServerHints, jitter: Duration, now: Timestamp) -> Arc<Destination> {
        if let Some(record) = self.record.take() {
            self.destination.update(|pacer| {
                let paused = hints.retry_after.is_some_and(|hold| pacer.hold(hold, jitter, now));
                pacer.on_response(&record, hints.quota.as_ref(), now) | paused
            });
        }
        Arc::clone(&self.destination)
    }
}

impl Drop for InFlightCall {
    fn drop(&mut self) {
        if self.record.take().is_some() {
            self.destination.update(|pacer| {
                pacer.on_failure();
                false
            });
        }
    }
}
