//! Request counters.
//!
//! Each worker has its own counters, so counting is cheap; readers add them up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use parking_lot::Mutex;

/// Number of status classes: 1xx to 5xx.
pub(crate) const STATUS_CLASSES: usize = 5;

/// Request counters of one worker. Aligned to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct RequestCounters {
    in_flight: AtomicU64,
    responses: [AtomicU64; STATUS_CLASSES],
}

impl RequestCounters {
    /// Counts a request as in flight until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlightGuard {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlightGuard(Arc::clone(self))
    }

    /// Counts a response.
    pub(crate) fn record_response(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        // Non-standard statuses above 5xx count in the last class.
        let class = class.clamp(1, STATUS_CLASSES) - 1;
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }
}

/// Guard of a request in flight.
#[derive(Debug)]
pub(crate) struct InFlightGuard(Arc<RequestCounters>);

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The counters of all workers.
#[derive(Debug, Default)]
pub(crate) struct CounterRegistry(Mutex<Vec<Arc<RequestCounters>>>);

impl CounterRegistry {
    /// Registers the counters of a worker.
    pub(crate) fn register(&self) -> Arc<RequestCounters> {
        let counters = Arc::new(RequestCounters::default());
        self.0.lock().push(Arc::clone(&counters));
        counters
    }

    /// Requests in flight, and responses so far by status class.
    pub(crate) fn totals(&self) -> (u64, [u64; STATUS_CLASSES]) {
        let (mut in_flight, mut responses) = (0, [0; STATUS_CLASSES]);
        for counters in self.0.lock().iter() {
            in_flight += counters.in_flight.load(Ordering::Relaxed);
            for (sum, part) in responses.iter_mut().zip(&counters.responses) {
                *sum += part.load(Ordering::Relaxed);
            }
        }
        (in_flight, responses)
    }
}
