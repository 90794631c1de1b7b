//! Concurrency of calls to the store.
//!
//! A single call is sent at once. A concurrent second call makes both batches smaller: with a short round
//! trip that costs more than it gains, so it is sent only if enough items are queued. With a long round trip,
//! waiting would cost a round trip, so it is sent at once too.

use std::time::Duration;

/// Maximum calls in flight to one primary.
const MAX_CALLS: usize = 4;
/// Maximum calls in flight to a Redis Cluster, where each slot needs its own.
const MAX_CLUSTER_CALLS: usize = 64;
/// Items that must be queued for a concurrent call to a nearby store.
const MIN_NEARBY_BATCH: usize = 32;
/// A store with a longer round trip counts as far.
const FAR_ROUND_TRIP: Duration = Duration::from_millis(1);

/// Concurrency control from the measured round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallConcurrency {
    has_slots: bool,
    /// Smoothed round-trip time.
    round_trip: Duration,
}

impl CallConcurrency {
    pub(super) const fn new(has_slots: bool) -> Self {
        Self { has_slots, round_trip: Duration::ZERO }
    }

    /// Records the round trip of a completed call.
    pub(super) fn record_round_trip(&mut self, time: Duration) {
        self.round_trip = (self.round_trip.saturating_mul(7).saturating_add(time)) / 8;
    }

    /// Items that must be queued for the next call, given the calls in flight. `None` at the limit.
    pub(super) fn min_batch(&self, in_flight: usize) -> Option<usize> {
        let max = if self.has_slots { MAX_CLUSTER_CALLS } else { MAX_CALLS };
        match in_flight {
            0 => Some(1),
            _ if in_flight >= max => None,
            _ if self.has_slots || self.round_trip > FAR_ROUND_TRIP => Some(1),
            _ => Some(MIN_NEARBY_BATCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_call_to_a_nearby_store_needs_a_large_batch() {
        let mut concurrency = CallConcurrency::new(false);
        assert_eq!(
            [0, 1, 3, 4].map(|calls| concurrency.min_batch(calls)),
            [Some(1), Some(MIN_NEARBY_BATCH), Some(MIN_NEARBY_BATCH), None]
        );
        for _ in 0..50 {
            concurrency.record_round_trip(Duration::from_millis(3));
        }
        assert_eq!([0, 1, 3, 4].map(|calls| concurrency.min_batch(calls)), [Some(1), Some(1), Some(1), None]);
        for _ in 0..50 {
            concurrency.record_round_trip(Duration::from_micros(100));
        }
        assert_eq!(concurrency.min_batch(1), Some(MIN_NEARBY_BATCH));
    }

    #[test]
    fn calls_to_different_slots_run_concurrently() {
        let concurrency = CallConcurrency::new(true);
        assert_eq!([0, 1, 63, 64].map(|calls| concurrency.min_batch(calls)), [Some(1), Some(1), Some(1), None]);
    }
}
