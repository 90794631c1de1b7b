//! Status and counters of a bulkhead.

use std::sync::Arc;
use std::time::Duration;

/// Status of a bulkhead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkheadStatus {
    /// Capacity.
    pub total: usize,
    /// Permits in use, over all classes.
    pub in_use: usize,
    /// Each class, in the order they were added.
    pub classes: Vec<ClassStatus>,
}

/// Status of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassStatus {
    /// Name of the class.
    pub class: Arc<str>,
    /// Maximum number of permits.
    pub max: usize,
    /// Permits that no other class can use.
    pub reserve: usize,
    /// Permits in use.
    pub in_use: usize,
    /// Callers in the queue.
    pub waiting: usize,
    /// Counters since the start.
    pub counts: ClassCounts,
}

/// Counters of a class since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// Admitted callers.
    pub admitted: u64,
    /// Refused because no permit became free in time.
    pub no_permit: u64,
    /// Refused because the queue was full.
    pub queue_full: u64,
    /// Refused by a limit of the class.
    pub over_limit: u64,
    /// Cancelled while they waited.
    pub cancelled: u64,
    /// Longest time in the queue, of admitted and refused callers.
    pub max_wait: Duration,
}
