//! What an operator wants to see of a bulkhead.

use std::sync::Arc;
use std::time::Duration;

/// A bulkhead at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// All places.
    pub total: usize,
    /// Places in use, over all classes.
    pub in_use: usize,
    /// Each class, in the order they were added.
    pub classes: Vec<ClassStatus>,
}

/// A class at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassStatus {
    /// Its name.
    pub class: Arc<str>,
    /// The most places it may use.
    pub max: usize,
    /// Places that nobody else may take.
    pub reserve: usize,
    /// Places in use.
    pub in_use: usize,
    /// Callers in line.
    pub waiting: usize,
    /// What happened since the start.
    pub counts: Counts,
}

/// How the callers of a class have fared since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Were let in.
    pub entered: u64,
    /// Were refused because no place came free in time.
    pub no_place: u64,
    /// Were refused because too many were waiting.
    pub line_full: u64,
    /// Were refused by a limit of the class.
    pub over_limit: u64,
    /// Went away while they waited.
    pub gone: u64,
    /// The longest that anybody was in line, let in or not.
    pub longest_wait: Duration,
}
