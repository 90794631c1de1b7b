//! Who wants to be woken when: one ordered list per clock.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::time::Timestamp;

/// Names one alarm of one clock, so that it can be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AlarmId {
    at: Timestamp,
    /// Tells alarms of the same moment apart, and keeps them in the order they were set.
    number: u64,
}

/// Alarms that have not gone off yet, soonest first.
#[derive(Default)]
pub(super) struct Alarms {
    pending: BTreeMap<AlarmId, Waker>,
    set: u64,
}

impl Alarms {
    pub(super) fn set(&mut self, at: Timestamp, waker: Waker) -> AlarmId {
        self.set += 1;
        let id = AlarmId { at, number: self.set };
        self.pending.insert(id, waker);
        id
    }

    /// The waker is foreign code: drop it without the lock.
    #[must_use]
    pub(super) fn cancel(&mut self, id: AlarmId) -> Option<Waker> {
        self.pending.remove(&id)
    }

    /// When the next alarm goes off.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.pending.first_key_value().map(|(id, _)| id.at)
    }

    /// Removes and answers everything due at `now`, soonest first.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<Waker> {
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
