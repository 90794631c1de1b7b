//! Settings of one class of work.

use std::time::Duration;

use crate::Limit;

/// Settings of a class of work: maximum, reserve, queue and limits.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::bulkhead::Class;
///
/// let writes = Class::new()
///     .max(15)                             // permits in use; default: the full capacity
///     .reserve(5)                          // permits that no other class can use; default: 0
///     .wait(Duration::from_millis(500))    // queue timeout; default: 1 second
///     .max_waiting(100)                    // queue length; default: 1,024
///     .importance(1)                       // served before classes with a lower value; default: 0
///     .limit("200/s".parse()?);            // rate of acquired permits
/// # Ok::<(), sluicegate::LimitError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Class {
    pub(super) max: Option<usize>,
    pub(super) reserve: usize,
    pub(super) wait: Duration,
    pub(super) max_waiting: usize,
    pub(super) importance: u8,
    pub(super) limits: Vec<Limit>,
}

impl Class {
    /// A class with the full capacity as its maximum, no reserve, and a queue timeout of one second.
    pub fn new() -> Self {
        Self {
            max: None,
            reserve: 0,
            wait: Duration::from_secs(1),
            max_waiting: 1_024,
            importance: 0,
            limits: Vec::new(),
        }
    }

    /// Sets the maximum number of permits in use.
    pub fn max(mut self, permits: usize) -> Self {
        self.max = Some(permits);
        self
    }

    /// Sets the number of permits that no other class can use.
    pub fn reserve(mut self, permits: usize) -> Self {
        self.reserve = permits;
        self
    }

    /// Sets the queue timeout; zero refuses immediately.
    pub fn wait(mut self, max_wait: Duration) -> Self {
        self.wait = max_wait;
        self
    }

    /// Sets the maximum queue length.
    pub fn max_waiting(mut self, callers: usize) -> Self {
        self.max_waiting = callers;
        self
    }

    /// Sets the importance. A free permit goes to the class with the highest importance that may use it; among equals,
    /// to the caller that arrived first.
    pub fn importance(mut self, importance: u8) -> Self {
        self.importance = importance;
        self
    }

    /// Adds a limit. The limit and the permit are acquired together, or neither is.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }
}

impl Default for Class {
    fn default() -> Self {
        Self::new()
    }
}
