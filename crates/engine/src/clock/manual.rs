//! A clock that moves only when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;

use super::alarms::Alarms;
use super::{AlarmId, Clock};
use crate::time::Timestamp;

/// A clock for tests. Clones are the same clock.
///
/// It starts a thousand seconds after the engine's epoch, so that tests can step back too.
#[derive(Clone)]
pub struct ManualClock {
    shared: Arc<Shared>,
}

struct Shared {
    now: AtomicU64,
    alarms: Mutex<Alarms>,
}

impl ManualClock {
    /// A clock that stands still.
    pub fn new() -> Self {
        Self::starting_at(Timestamp::from_nanos(1_000_000_000_000))
    }

    /// A clock that stands still at `now`.
    pub fn starting_at(now: Timestamp) -> Self {
        let shared = Shared { now: AtomicU64::new(now.as_nanos()), alarms: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Moves on and wakes whoever waited for a moment up to then.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
    }

    /// Moves to `now`, back if need be.
    pub fn set(&self, now: Timestamp) {
        let due = {
            let mut alarms = self.shared.alarms.lock();
            self.shared.now.store(now.as_nanos(), Ordering::SeqCst);
            alarms.due(now)
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// The next moment somebody waits for.
    pub fn next_alarm(&self) -> Option<Timestamp> {
        self.shared.alarms.lock().next()
    }

    /// How many alarms are set.
    pub fn alarms(&self) -> usize {
        self.shared.alarms.lock().len()
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

    fn set_alarm(&self, at: Timestamp, waker: Waker) -> AlarmId {
        let due = waker.clone();
        let (id, late) = {
            let mut alarms = self.shared.alarms.lock();
            (alarms.set(at, waker), at <= self.now())
        };
        if late {
            // Due already: the next `set` would come too late for it.
            due.wake();
        }
        id
    }

    fn cancel_alarm(&self, id: AlarmId) {
        let waker = self.shared.alarms.lock().cancel(id);
        drop(waker);
    }
}
