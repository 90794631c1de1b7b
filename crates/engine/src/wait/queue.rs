//! Wait queues by key: first in, first out, with a forecast.
//!
//! Only the first caller in a queue tries to acquire; the others sleep. A caller that leaves wakes the next.
//! Each queue stores the forecast state after all its callers have left, so that the wait of a new caller is
//! known without evaluating all callers ahead of it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::limit_set::LimitSet;
use crate::table::KeyHash;
use crate::time::Timestamp;

/// Maximum number of waiting callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueCapacity {
    /// Per key.
    pub(crate) per_key: usize,
    /// Over all keys.
    pub(crate) total: usize,
}

impl Default for QueueCapacity {
    fn default() -> Self {
        Self { per_key: 1_024, total: 65_536 }
    }
}

/// Wait queues of a limiter, one per key.
pub(crate) struct WaitQueue {
    per_key: AtomicUsize,
    total: usize,
    /// Callers in all queues; lets other callers skip the lock.
    waiting: AtomicUsize,
    /// Number of wakers of callers that wait elsewhere but need permits held here.
    watching: AtomicUsize,
    queues: Mutex<KeyQueues>,
}

#[derive(Default)]
struct KeyQueues {
    by_key: HashMap<KeyHash, KeyQueue>,
    watchers: Vec<(KeyHash, WakeId, Waker)>,
    tickets: u64,
}

#[derive(Default)]
struct KeyQueue {
    waiters: VecDeque<QueueEntry>,
    /// Forecast; `None` if there is none.
    forecast: Option<Forecast>,
}

/// Forecast of a queue.
struct Forecast {
    /// Id of the limit set used for the forecast.
    limit_set: u64,
    /// State after all callers have left.
    state: Vec<u64>,
    /// Time at which the last one leaves.
    at: Timestamp,
}

struct QueueEntry {
    ticket: Ticket,
    cost: u64,
    /// Forecast time of admission.
    expected_at: Option<Timestamp>,
    waker: Option<Waker>,
}

/// Ticket of a caller in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// Id of a wakeup registration by a caller that waits elsewhere. Futures of one task share a waker, so the
/// waker cannot identify them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakeId(u64);

impl WakeId {
    /// Unique id.
    pub(crate) fn new() -> Self {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self(NEXT_ID.fetch_add(1, Ordering::Relaxed))
    }
}

/// Parameters for joining a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinRequest {
    pub(crate) cost: u64,
    /// Latest acceptable time of admission.
    pub(crate) deadline: Timestamp,
    /// If set, it may join a full queue.
    pub(crate) ignores_capacity: bool,
}

/// Reason that a caller cannot join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinError {
    /// The queue is full.
    Full,
    /// The forecast admission is at this time, after the deadline.
    TooLate(Timestamp),
}

impl KeyQueue {
    /// State after all queued callers have left, computed from the current state, and the time of that. The time is
    /// `None` if the clock alone does not decide.
    fn forecast_end(&self, limit_set: &LimitSet, state: &mut [u64], now: Timestamp) -> Option<Timestamp> {
        if let Some(end) = &self.forecast
            && end.limit_set == limit_set.id()
        {
            state.copy_from_slice(&end.state);
            return Some(end.at.max(now));
        }
        self.waiters.iter().try_fold(now, |at, waiter| limit_set.forecast(state, at, waiter.cost))
    }

    /// Discards the forecast. Returns the waker of the first caller, which has to try again.
    fn invalidate_forecast(&mut self) -> Option<Waker> {
        self.forecast = None;
        self.waiters.front().and_then(|first| first.waker.clone())
    }
}

impl WaitQueue {
    pub(crate) fn new(bounds: QueueCapacity) -> Self {
        Self {
            per_key: AtomicUsize::new(bounds.per_key),
            total: bounds.total,
            waiting: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            queues: Mutex::default(),
        }
    }

    /// Changes the maximum number of callers per key. Callers already queued stay.
    pub(crate) fn set_per_key(&self, callers: usize) {
        self.per_key.store(callers, Ordering::Relaxed);
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_occupied(&self) -> bool {
        self.waiting() > 0
    }

    #[inline(never)]
    pub(crate) fn has_waiters(&self, key: KeyHash) -> bool {
        self.queues.lock().by_key.contains_key(&key)
    }

    /// Forecast time of admission for a caller that joins now. `state` is the key's current state.
    pub(crate) fn forecast(
        &self,
        key: KeyHash,
        limit_set: &LimitSet,
        state: &mut [u64],
        now: Timestamp,
        cost: u64,
    ) -> Option<Timestamp> {
        let end = match self.queues.lock().by_key.get(&key) {
            Some(queue) => queue.forecast_end(limit_set, state, now)?,
            None => now,
        };
        limit_set.forecast(state, end, cost)
    }

    /// Joins the queue of a key if there is room and the forecast admission meets the deadline.
    pub(crate) fn join(
        &self,
        key: KeyHash,
        limit_set: &LimitSet,
        mut state: Vec<u64>,
        now: Timestamp,
        request: JoinRequest,
    ) -> Result<Ticket, JoinError> {
        let JoinRequest { cost, deadline, ignores_capacity } = request;
        let mut queues = self.queues.lock();
        if self.waiting() >= self.total && !ignores_capacity {
            return Err(JoinError::Full);
        }
        let queue = queues.by_key.get(&key);
        let ahead = queue.map_or(0, |queue| queue.waiters.len());
        if ahead >= self.per_key.load(Ordering::Relaxed) && !ignores_capacity {
            return Err(JoinError::Full);
        }
        let initial = state.clone();
        let end = queue.map_or(Some(now), |queue| queue.forecast_end(limit_set, &mut state, now));
        if end.is_none() {
            // The clock alone does not decide the departure of those ahead, but their number still counts.
            state = initial;
            let waiters = queue.iter().flat_map(|queue| &queue.waiters);
            waiters.for_each(|waiter| limit_set.charge_queue(&mut state, now, waiter.cost));
        }
        if !limit_set.queue_has_capacity(&state, now, cost) && !ignores_capacity {
            return Err(JoinError::Full);
        }
        let expected_at = end.and_then(|end| limit_set.forecast(&mut state, end, cost));
        if let Some(admitted_at) = expected_at
            && admitted_at > deadline
        {
            return Err(JoinError::TooLate(admitted_at));
        }
        queues.tickets += 1;
        let ticket = Ticket(queues.tickets);
        let queue = queues.by_key.entry(key).or_default();
        queue.waiters.push_back(QueueEntry { ticket, cost, expected_at, waker: None });
        queue.forecast = expected_at.map(|at| Forecast { limit_set: limit_set.id(), state, at });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(ticket)
    }

    /// True if this caller is first in its queue. Otherwise, or if it has to wait anyway, `waker` wakes it.
    pub(crate) fn is_first(&self, key: KeyHash, ticket: Ticket, waker: &Waker) -> bool {
        // Wakers are foreign code: the old one is declared first so that it is dropped last, without the lock.
        let mut old = None;
        let mut queues = self.queues.lock();
        let Some(queue) = queues.by_key.get_mut(&key) else { return true };
        if let Some(waiter) = queue.waiters.iter_mut().find(|waiter| waiter.ticket == ticket) {
            match &mut waiter.waker {
                Some(known) if known.will_wake(waker) => {}
                known => old = known.replace(waker.clone()),
            }
        }
        let first = queue.waiters.front().is_none_or(|first| first.ticket == ticket);
        drop(queues);
        drop(old);
        first
    }

    /// Leaves the queue, admitted at a time or not at all. Discards the forecast unless the caller was admitted at
    /// the forecast time.
    pub(crate) fn leave(&self, key: KeyHash, ticket: Ticket, admitted_at: Option<Timestamp>) {
        let removed;
        let next = {
            let mut queues = self.queues.lock();
            let Some(queue) = queues.by_key.get_mut(&key) else { return };
            let Some(position) = queue.waiters.iter().position(|waiter| waiter.ticket == ticket) else { return };
            removed = queue.waiters.remove(position);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if admitted_at.is_none() || removed.as_ref().and_then(|waiter| waiter.expected_at) != admitted_at {
                queue.forecast = None;
            }
            let next = if position == 0 { queue.waiters.front().and_then(|first| first.waker.clone()) } else { None };
            if queue.waiters.is_empty() {
                queues.by_key.remove(&key);
            }
            next
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }

    /// Registers a one-time wakeup for a release on this key. Returns true if the registration is new or changed.
    pub(crate) fn watch(&self, key: KeyHash, wake_id: WakeId, waker: &Waker) -> bool {
        // Wakers are foreign code: the old one is declared first so that it is dropped last, without the lock.
        let _old;
        let mut queues = self.queues.lock();
        let known = queues.watchers.iter_mut().find(|(watched, id, _)| (*watched, *id) == (key, wake_id));
        match known {
            Some((.., known)) if known.will_wake(waker) => return false,
            Some((.., known)) => _old = std::mem::replace(known, waker.clone()),
            None => {
                queues.watchers.push((key, wake_id, waker.clone()));
                self.watching.store(queues.watchers.len(), Ordering::Relaxed);
            }
        }
        true
    }

    /// Removes a wakeup registration.
    pub(crate) fn unwatch(&self, key: KeyHash, wake_id: WakeId) {
        let removed: Vec<(KeyHash, WakeId, Waker)> = {
            let mut queues = self.queues.lock();
            let removed = queues.watchers.extract_if(.., |(watched, id, _)| (*watched, *id) == (key, wake_id));
            let removed = removed.collect();
            self.watching.store(queues.watchers.len(), Ordering::Relaxed);
            removed
        };
        drop(removed);
    }

    /// Wakes the first caller after a release: it may be admitted earlier than forecast.
    #[inline]
    pub(crate) fn wake(&self, key: KeyHash) {
        if self.is_occupied() || self.watching.load(Ordering::Relaxed) > 0 {
            self.wake_matching(|queue_key| queue_key == key);
        }
    }

    /// Discards all forecasts and wakes the first caller of each queue.
    pub(crate) fn invalidate_forecasts(&self) {
        self.wake_matching(|_| true);
    }

    fn wake_matching(&self, concerned: impl Fn(KeyHash) -> bool) {
        let mut wakers = Vec::new();
        {
            let mut queues = self.queues.lock();
            let KeyQueues { by_key, watchers, .. } = &mut *queues;
            let matching = by_key.iter_mut().filter(|(key, _)| concerned(**key));
            wakers.extend(matching.filter_map(|(_, queue)| queue.invalidate_forecast()));
            wakers.extend(watchers.extract_if(.., |(key, ..)| concerned(*key)).map(|(.., waker)| waker));
            self.watching.store(watchers.len(), Ordering::Relaxed);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}
