//! Wait forecasts for queued requests.

use std::time::Duration;

use super::{LimitSet, Marks};
use crate::algorithm::{AdmitMode, Algorithm, Check};
use crate::limit::{Limit, each_algorithm};
use crate::time::Timestamp;

impl LimitSet {
    /// Time at which a request of `cost` that arrives at `at` would be admitted; updates the state accordingly.
    /// `None` if the clock alone does not decide, or if it is never admitted.
    pub(crate) fn forecast(&self, state: &mut [u64], at: Timestamp, cost: u64) -> Option<Timestamp> {
        let at = match self.check(state, at, cost, AdmitMode::Immediate).check {
            Check::Now | Check::After(_) => at,
            Check::NotBefore(wait) => at + Duration::from_nanos(wait),
            Check::Held | Check::Never => return None,
        };
        self.commit(state, at, cost, false, &mut Marks::new());
        Some(at)
    }

    /// Charges `cost` to the limits with a bounded queue only.
    pub(crate) fn charge_queue(&self, state: &mut [u64], now: Timestamp, cost: u64) {
        self.each_mut(state, |limit, part| {
            if limit.has_queue() {
                each_algorithm!(limit, algorithm => algorithm.commit(part, now, cost, false));
            }
        });
    }

    /// Minimum wait: the longest that any limit imposes by the clock alone, regardless of held permits.
    pub(crate) fn min_wait(&self, state: &[u64], now: Timestamp, cost: u64) -> Duration {
        let waits = self.parts(state).map(|(limit, part)| {
            let cost = self.cost_of(limit, cost);
            match each_algorithm!(limit, algorithm => algorithm.check(part, now, cost, AdmitMode::Immediate)) {
                Check::NotBefore(wait) => wait,
                _ => 0,
            }
        });
        Duration::from_nanos(waits.max().unwrap_or(0))
    }

    /// True if a request may join the queue of every limit with a bounded queue. `state` is the state after all
    /// queued requests have left.
    pub(crate) fn queue_has_capacity(&self, state: &[u64], now: Timestamp, cost: u64) -> bool {
        let admits = |limit: &Limit, part: &[u64]| {
            let check = each_algorithm!(limit, algorithm => algorithm.check(part, now, cost, AdmitMode::Reserve));
            matches!(check, Check::Now | Check::After(_))
        };
        self.parts(state).all(|(limit, part)| !limit.has_queue() || admits(limit, part))
    }
}
