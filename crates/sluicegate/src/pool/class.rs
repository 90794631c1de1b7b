//! What one class of work may use.

use std::time::Duration;

use crate::Limit;

/// One class of work: how many places, which of them for itself, and how long its callers wait.
///
/// ```
/// use std::time::Duration;
/// use sluicegate::pool::Class;
///
/// let writes = Class::new()
///     .max(15)                             // at once; all places unless told otherwise
///     .reserve(5)                          // nobody else may take these
///     .wait(Duration::from_millis(500))    // then refused; a second unless told otherwise
///     .max_waiting(100)                    // in line; 1,024 unless told otherwise
///     .importance(1)                       // goes before classes with less; 0 unless told otherwise
///     .limit("200/s".parse()?);            // and how many may begin
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
    /// A class that may use every place, has none for itself, and waits for a second.
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

    /// The most places it may use at once.
    pub fn max(mut self, places: usize) -> Self {
        self.max = Some(places);
        self
    }

    /// Places that nobody else may take.
    pub fn reserve(mut self, places: usize) -> Self {
        self.reserve = places;
        self
    }

    /// How long a caller waits for a place; zero to be refused at once.
    pub fn wait(mut self, longest: Duration) -> Self {
        self.wait = longest;
        self
    }

    /// How many may wait.
    pub fn max_waiting(mut self, callers: usize) -> Self {
        self.max_waiting = callers;
        self
    }

    /// A free place goes to the class with the highest number that may take it; among equals, to the
    /// caller who came first.
    pub fn importance(mut self, importance: u8) -> Self {
        self.importance = importance;
        self
    }

    /// Adds a limit of how many may begin. It is taken together with the place, or neither is.
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
