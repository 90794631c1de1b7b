//! State shared by the callers and the client's thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use super::batch::Batch;
use super::breaker::Breaker;
use super::concurrency::CallConcurrency;
use super::node_count::NodeCount;
use super::pending::{PendingReply, ReplyResult};
use super::slot_queues::SlotQueues;
use crate::connection::StoreConnection;
use crate::error::{BreakerEffect, CallError, StoreError};
use crate::health::{Counters, Health, SharedCounters, StoreState};

/// Maximum queued calls. Further calls fail at once.
const MAX_QUEUED_CALLS: usize = 4096;

pub(super) struct StoreClientState<B: Batch> {
    pub(super) this: Weak<Self>,
    pub(super) batch: B,
    pub(super) connection: StoreConnection,
    pub(super) counters: SharedCounters,
    pub(super) runtime: Handle,
    pub(super) deadline: Duration,
    /// Key of the set of live processes, and this process's ID in it.
    pub(super) nodes_key: Bytes,
    pub(super) node_id: Bytes,
    pub(super) node_count: Mutex<NodeCount>,
    pub(super) queue: Mutex<CallQueue<B>>,
    /// Wakes the dispatcher: items are queued and a call may be sent.
    pub(super) wake: Notify,
    /// Wakes the recovery task: the breaker opened.
    pub(super) breaker_opened: Notify,
    /// Signals the thread to end.
    pub(super) closing: Notify,
    /// True once the thread has ended.
    pub(super) ended: watch::Sender<bool>,
    /// Undo calls in flight.
    pub(super) undos_in_flight: AtomicUsize,
    /// True if the breaker is open; a lock-free copy for the hot path.
    degraded: AtomicBool,
    breaker: Mutex<Breaker>,
    connected: AtomicBool,
}

/// Queued calls and the number in flight.
pub(super) struct CallQueue<B: Batch> {
    pub(super) calls: SlotQueues<QueuedCall<B>>,
    pub(super) in_flight: usize,
    /// The dispatcher sleeps and is to be woken once so many calls are queued.
    pub(super) wake_threshold: Option<usize>,
    pub(super) concurrency: CallConcurrency,
    pub(super) closed: bool,
}

pub(super) struct QueuedCall<B: Batch> {
    pub(super) item: B::Item,
    pub(super) waiter: CallWaiter<B>,
}

/// The caller's reply channel and its deadline.
pub(super) struct CallWaiter<B: Batch> {
    pub(super) sender: oneshot::Sender<ReplyResult<B>>,
    pub(super) deadline: Instant,
}

impl<B: Batch> StoreClientState<B> {
    pub(super) fn new(
        batch: B,
        connection: StoreConnection,
        counters: SharedCounters,
        runtime: Handle,
        deadline: Duration,
        names: (Bytes, Bytes),
    ) -> Arc<Self> {
        let concurrency = CallConcurrency::new(connection.has_slots());
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            batch,
            connection,
            counters,
            runtime,
            deadline,
            nodes_key: names.0,
            node_id: names.1,
            node_count: Mutex::default(),
            queue: Mutex::new(CallQueue {
                calls: SlotQueues::new(),
                in_flight: 0,
                wake_threshold: None,
                concurrency,
                closed: false,
            }),
            wake: Notify::new(),
            breaker_opened: Notify::new(),
            closing: Notify::new(),
            ended: watch::Sender::new(false),
            undos_in_flight: AtomicUsize::new(0),
            degraded: AtomicBool::new(false),
            breaker: Mutex::default(),
            connected: AtomicBool::new(false),
        })
    }

    /// Queues an item, or fails at once. Never blocks.
    pub(super) fn submit(&self, item: B::Item) -> PendingReply<B> {
        Counters::add(&self.counters.decisions, 1);
        if self.is_degraded() {
            Counters::add(&self.counters.refusals, 1);
            return PendingReply::failed(CallError::Degraded);
        }
        let (sender, receiver) = oneshot::channel();
        let slot = if self.connection.has_slots() { self.batch.slot(&item) } else { 0 };
        let waiting = QueuedCall { item, waiter: CallWaiter { sender, deadline: Instant::now() + self.deadline } };
        let wake = {
            let mut queue = self.queue.lock();
            if queue.closed {
                return PendingReply::failed(CallError::Closed);
            }
            if queue.calls.len() >= MAX_QUEUED_CALLS {
                Counters::add(&self.counters.overloads, 1);
                return PendingReply::failed(CallError::QueueFull);
            }
            queue.calls.push(slot, waiting);
            let waiting = queue.calls.len();
            queue.wake_threshold.take_if(|count| waiting >= *count).is_some()
        };
        if wake {
            self.wake.notify_one();
        }
        PendingReply::waiting(receiver, self.this.clone())
    }

    pub(super) fn is_degraded(&self) -> bool {
        self.degraded.load(Ordering::Relaxed)
    }

    /// Records the success of a call by its send time.
    pub(super) fn record_success(&self, sent: Instant) {
        self.breaker.lock().record_success(sent);
    }

    /// Records a failed call, and opens the breaker if it was one too many.
    pub(super) fn record_failure(&self, error: &StoreError) {
        self.record_failure_as(error, self.connection.breaker_effect(error.kind));
    }

    /// Records a stalled call sent at `then`.
    pub(super) fn record_silence(&self, then: Instant, error: &StoreError) {
        let effect = self.breaker.lock().silence_effect(then);
        self.record_failure_as(error, effect);
    }

    /// As [`record_failure`](Self::record_failure), with an explicit breaker effect.
    pub(super) fn record_failure_as(&self, error: &StoreError, effect: BreakerEffect) {
        self.counters.record_failure(error);
        let opened = {
            let mut breaker = self.breaker.lock();
            let opened = breaker.record_failure(effect, Instant::now());
            if opened {
                self.degraded.store(true, Ordering::Relaxed);
            }
            opened
        };
        if opened {
            Counters::add(&self.counters.breaker_openings, 1);
            self.breaker_opened.notify_one();
            self.fail_queued(&CallError::Degraded);
        }
    }

    /// Closes the breaker after a successful probe.
    pub(super) fn close_breaker(&self, sent: Instant) {
        let mut breaker = self.breaker.lock();
        breaker.close(sent);
        self.connected.store(true, Ordering::Relaxed);
        self.degraded.store(false, Ordering::Relaxed);
    }

    /// Fails all queued calls.
    pub(super) fn fail_queued(&self, failure: &CallError) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.wake_threshold = Some(1);
            queue.calls.take_all()
        };
        if *failure == CallError::Degraded {
            Counters::add(&self.counters.refusals, waiting.len() as u64);
        }
        for waiting in waiting {
            // The caller may be gone.
            drop(waiting.waiter.sender.send(Err(failure.clone())));
        }
    }

    pub(super) fn health(&self) -> Health {
        let degraded = self.breaker.lock().open_since();
        let state = match degraded {
            _ if self.queue.lock().closed => StoreState::Closed,
            Some(since) => StoreState::Degraded { since },
            None if self.connected.load(Ordering::Relaxed) => StoreState::Connected,
            None => StoreState::Connecting,
        };
        self.counters.snapshot(state)
    }
}
