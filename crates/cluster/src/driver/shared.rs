//! What the callers and the driver's thread share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use super::asking::{Asking, Heard};
use super::batch::Batch;
use super::breaker::Breaker;
use super::census::Census;
use super::lanes::Lanes;
use super::pace::Pace;
use crate::error::{Failure, StoreError, Weight};
use crate::health::{Counters, Health, SharedCounters, State};
use crate::link::Link;

/// How many may wait. Whoever comes then is told so at once.
const MOST_WAITING: usize = 4096;

pub(super) struct Shared<B: Batch> {
    pub(super) this: Weak<Self>,
    pub(super) batch: B,
    pub(super) link: Link,
    pub(super) counters: SharedCounters,
    pub(super) runtime: Handle,
    pub(super) deadline: Duration,
    /// Where the processes that share the store are listed, and this one's name there.
    pub(super) nodes_key: Bytes,
    pub(super) name: Bytes,
    pub(super) census: Mutex<Census>,
    pub(super) line: Mutex<Line<B>>,
    /// Tells the gatherer that something waits and the line is free.
    pub(super) wake: Notify,
    /// Tells the recovery that the breaker opened.
    pub(super) opened: Notify,
    /// Tells the thread to end.
    pub(super) closing: Notify,
    /// Whether it has.
    pub(super) ended: watch::Sender<bool>,
    /// How many calls are under way that give something back.
    pub(super) returning: AtomicUsize,
    /// Whether the breaker is open, for those in a hurry.
    degraded: AtomicBool,
    breaker: Mutex<Breaker>,
    connected: AtomicBool,
}

/// What waits and what is under way.
pub(super) struct Line<B: Batch> {
    pub(super) lanes: Lanes<Waiting<B>>,
    pub(super) in_flight: usize,
    /// The gatherer sleeps and is to be woken when so many wait.
    pub(super) wake_at: Option<usize>,
    pub(super) pace: Pace,
    pub(super) closed: bool,
}

pub(super) struct Waiting<B: Batch> {
    pub(super) item: B::Item,
    pub(super) asker: Asker<B>,
}

/// Who asked, and until when they wait.
pub(super) struct Asker<B: Batch> {
    pub(super) answer: oneshot::Sender<Heard<B>>,
    pub(super) deadline: Instant,
}

impl<B: Batch> Shared<B> {
    pub(super) fn new(
        batch: B,
        link: Link,
        counters: SharedCounters,
        runtime: Handle,
        deadline: Duration,
        names: (Bytes, Bytes),
    ) -> Arc<Self> {
        let pace = Pace::new(link.has_slots());
        Arc::new_cyclic(|this| Self {
            this: this.clone(),
            batch,
            link,
            counters,
            runtime,
            deadline,
            nodes_key: names.0,
            name: names.1,
            census: Mutex::default(),
            line: Mutex::new(Line { lanes: Lanes::new(), in_flight: 0, wake_at: None, pace, closed: false }),
            wake: Notify::new(),
            opened: Notify::new(),
            closing: Notify::new(),
            ended: watch::Sender::new(false),
            returning: AtomicUsize::new(0),
            degraded: AtomicBool::new(false),
            breaker: Mutex::default(),
            connected: AtomicBool::new(false),
        })
    }

    /// Puts an item in the line, or says why not. Never waits.
    pub(super) fn ask(&self, item: B::Item) -> Asking<B> {
        Counters::add(&self.counters.asks, 1);
        if self.is_degraded() {
            Counters::add(&self.counters.refusals, 1);
            return Asking::failed(Failure::Degraded);
        }
        let (answer, heard) = oneshot::channel();
        let slot = if self.link.has_slots() { self.batch.slot(&item) } else { 0 };
        let waiting = Waiting { item, asker: Asker { answer, deadline: Instant::now() + self.deadline } };
        let wake = {
            let mut line = self.line.lock();
            if line.closed {
                return Asking::failed(Failure::Closed);
            }
            if line.lanes.len() >= MOST_WAITING {
                Counters::add(&self.counters.overloads, 1);
                return Asking::failed(Failure::Overloaded);
            }
            line.lanes.push(slot, waiting);
            let waiting = line.lanes.len();
            line.wake_at.take_if(|many| waiting >= *many).is_some()
        };
        if wake {
            self.wake.notify_one();
        }
        Asking::asked(heard, self.this.clone())
    }

    pub(super) fn is_degraded(&self) -> bool {
        self.degraded.load(Ordering::Relaxed)
    }

    /// A call sent then passed.
    pub(super) fn passed(&self, sent: Instant) {
        self.breaker.lock().passed(sent);
    }

    /// A call failed: counts it, and leaves the store alone if that was enough.
    pub(super) fn failed(&self, error: &StoreError) {
        self.failed_with(error, self.link.weight(error.kind));
    }

    /// A call sent `then` is unanswered for far too long.
    pub(super) fn silent_since(&self, then: Instant, error: &StoreError) {
        let weight = self.breaker.lock().silence_since(then);
        self.failed_with(error, weight);
    }

    /// As [`failed`](Self::failed), with a weight of the caller's own.
    pub(super) fn failed_with(&self, error: &StoreError, weight: Weight) {
        self.counters.failed(error);
        let opened = {
            let mut breaker = self.breaker.lock();
            let opened = breaker.failed(weight, Instant::now());
            if opened {
                self.degraded.store(true, Ordering::Relaxed);
            }
            opened
        };
        if opened {
            Counters::add(&self.counters.breaker_openings, 1);
            self.opened.notify_one();
            self.refuse_all(&Failure::Degraded);
        }
    }

    /// A probe sent then passed: the store is asked again.
    pub(super) fn recovered(&self, sent: Instant) {
        let mut breaker = self.breaker.lock();
        breaker.close(sent);
        self.connected.store(true, Ordering::Relaxed);
        self.degraded.store(false, Ordering::Relaxed);
    }

    /// Tells all who wait that they do so in vain.
    pub(super) fn refuse_all(&self, failure: &Failure) {
        let waiting = {
            let mut line = self.line.lock();
            line.wake_at = Some(1);
            line.lanes.take_all()
        };
        if *failure == Failure::Degraded {
            Counters::add(&self.counters.refusals, waiting.len() as u64);
        }
        for waiting in waiting {
            // Who is gone need not be told.
            drop(waiting.asker.answer.send(Err(failure.clone())));
        }
    }

    pub(super) fn health(&self) -> Health {
        let degraded = self.breaker.lock().open_since();
        let state = match degraded {
            _ if self.line.lock().closed => State::Closed,
            Some(since) => State::Degraded { since },
            None if self.connected.load(Ordering::Relaxed) => State::Connected,
            None => State::Connecting,
        };
        self.counters.snapshot(state)
    }
}
