//! What a plan tells of those who wait for it.

use std::time::Duration;

use super::{Marks, Plan};
use crate::algorithm::{Algorithm, Check, Entry};
use crate::limit::{Limit, each_algorithm};
use crate::time::Timestamp;

impl Plan {
    /// When a caller of `cost` could leave if it came at `at`, and the state after that. `None` if no
    /// clock can tell, or never.
    pub(crate) fn forecast(&self, state: &mut [u64], at: Timestamp, cost: u64) -> Option<Timestamp> {
        let at = match self.check(state, at, cost, Entry::Depart).check {
            Check::Now | Check::After(_) => at,
            Check::NotBefore(wait) => at + Duration::from_nanos(wait),
            Check::Held | Check::Never => return None,
        };
        self.commit(state, at, cost, false, &mut Marks::new());
        Some(at)
    }

    /// Takes `cost` from the limits that bound their line, and from no other.
    pub(crate) fn fill_line(&self, state: &mut [u64], now: Timestamp, cost: u64) {
        self.each_mut(state, |limit, part| {
            if let Limit::LeakyBucket(bucket) = limit {
                bucket.commit(part, now, cost, false);
            }
        });
    }

    /// The longest wait the clock alone imposes, whatever is held by others.
    pub(crate) fn least_wait(&self, state: &[u64], now: Timestamp, cost: u64) -> Duration {
        let waits = self.parts(state).map(|(limit, part)| {
            let cost = self.cost_of(limit, cost);
            match each_algorithm!(limit, algorithm => algorithm.check(part, now, cost, Entry::Depart)) {
                Check::NotBefore(wait) => wait,
                _ => 0,
            }
        });
        Duration::from_nanos(waits.max().unwrap_or(0))
    }

    /// Whether a caller may join the line of every limit that bounds its line, given the state as it
    /// will be when those already waiting have left.
    pub(crate) fn line_has_room(&self, state: &[u64], now: Timestamp, cost: u64) -> bool {
        self.parts(state).all(|(limit, part)| match limit {
            Limit::LeakyBucket(bucket) => {
                matches!(bucket.check(part, now, cost, Entry::Enqueue), Check::Now | Check::After(_))
            }
            _ => true,
        })
    }
}
