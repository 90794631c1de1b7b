//! Manually advanced clock for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;

use super::timers::Timers;
use super::{Clock, TimerId};
use crate::time::Timestamp;

/// Clock for tests that moves only on request. Clones are the same clock.
///
/// It starts a thousand seconds after the engine's epoch, so that tests can also step back.
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<ManualClockState>,
}

struct ManualClockState {
    now: AtomicU64,
    timers: Mutex<Timers>,
}

impl ManualClock {
    /// Creates a stopped clock.
    pub fn new() -> Self {
        Self::starting_at(Timestamp::from_nanos(1_000_000_000_000))
    }

    /// Creates a clock stopped at `now`.
    pub fn starting_at(now: Timestamp) -> Self {
        let shared = ManualClockState { now: AtomicU64::new(now.as_nanos()), timers: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Advances the clock and wakes all timers due by then.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
    }

    /// Sets the clock to `now`, also backwards.
    pub fn set(&self, now: Timestamp) {
        let due = {
            let mut timers = self.shared.timers.lock();
            self.shared.now.store(now.as_nanos(), Ordering::SeqCst);
            timers.take_due(now)
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// Deadline of the next timer.
    pub fn next_timer(&self) -> Option<Timestamp> {
        self.shared.timers.lock().next_deadline()
    }

    /// Number of pending timers.
    pub fn pending_timers(&self) -> usize {
        self.shared.timers.lock().len()
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.shared.now.load(Ordering::SeqCst))
    }

    fn schedule(&self, at: Timestamp, waker: Waker) -> TimerId {
        let due = waker.clone();
        let (id, is_due) = {
            let mut timers = self.shared.timers.lock();
            (timers.insert(at, waker), at <= self.now())
        };
        if is_due {
            // Already due: the next `set` would come too late for it.
            due.wake();
        }
        id
    }

    fn cancel(&self, id: TimerId) {
        let waker = self.shared.timers.lock().cancel(id);
        drop(waker);
    }
}
