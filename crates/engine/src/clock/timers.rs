//! Pending timers of a clock, ordered by deadline.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::time::Timestamp;

/// Identifies a timer of a clock for cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimerId {
    at: Timestamp,
    /// Distinguishes timers of the same deadline and keeps them in insertion order.
    sequence: u64,
}

/// Pending timers, earliest deadline first.
#[derive(Default)]
pub(super) struct Timers {
    pending: BTreeMap<TimerId, Waker>,
    scheduled: u64,
}

impl Timers {
    pub(super) fn insert(&mut self, at: Timestamp, waker: Waker) -> TimerId {
        self.scheduled += 1;
        let id = TimerId { at, sequence: self.scheduled };
        self.pending.insert(id, waker);
        id
    }

    /// Removes a timer. Drop the returned waker without holding the lock: it is foreign code.
    #[must_use]
    pub(super) fn cancel(&mut self, id: TimerId) -> Option<Waker> {
        self.pending.remove(&id)
    }

    /// Deadline of the next timer.
    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.pending.first_key_value().map(|(id, _)| id.at)
    }

    /// Removes and returns the wakers of all timers due at `now`, earliest first.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<Waker> {
        let mut wakers = Vec::new();
        while let Some(entry) = self.pending.first_entry() {
            if entry.key().at > now {
                break;
            }
            wakers.push(entry.remove());
        }
        wakers
    }

    pub(super) fn len(&self) -> usize {
        self.pending.len()
    }
}
