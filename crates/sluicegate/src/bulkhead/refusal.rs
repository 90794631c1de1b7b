//! Refusal of a permit.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// A refused permit: the cause, and the state of the class.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct BulkheadRefusal {
    /// The class.
    pub class: Arc<str>,
    /// Cause of the refusal.
    pub cause: BulkheadCause,
    /// Permits of the class in use.
    pub in_use: usize,
    /// Maximum of the class.
    pub max: usize,
    /// Time spent in the queue.
    pub waited: Duration,
}

/// Cause of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkheadCause {
    /// No permit became free in time.
    NoPermit,
    /// The queue was full.
    QueueFull {
        /// Number of waiting callers.
        waiting: usize,
    },
    /// A limit of the class; a permit was free.
    Limit {
        /// Time until the limit would admit it. `None` if that depends on the release of permits.
        retry_after: Option<Duration>,
    },
}

impl BulkheadRefusal {
    /// Time after which to retry, if it is known.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.cause {
            BulkheadCause::Limit { retry_after } => retry_after,
            BulkheadCause::NoPermit | BulkheadCause::QueueFull { .. } => None,
        }
    }
}

impl fmt::Display for BulkheadRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, cause, in_use, max, waited } = self;
        match cause {
            BulkheadCause::NoPermit => {
                write!(f, "no permit for {class}: {in_use} of {max} in use")?;
                if in_use < max {
                    f.write_str(", the rest is used by or reserved for other classes")?;
                }
            }
            BulkheadCause::QueueFull { waiting } => {
                write!(f, "queue full for {class}: {in_use} of {max} in use, {waiting} waiting")?;
            }
            BulkheadCause::Limit { retry_after: Some(wait) } => {
                write!(f, "{class} over the limit: try again in {}", HumanDuration(*wait))?;
            }
            BulkheadCause::Limit { retry_after: None } => {
                write!(f, "{class} over the limit: try again when running work has finished")?;
            }
        }
        if !waited.is_zero() {
            write!(f, "; waited {}", HumanDuration(*waited))?;
        }
        Ok(())
    }
}

/// A duration rounded up to milliseconds, or to seconds from ten seconds on.
struct HumanDuration(Duration);

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if self.0 >= Duration::from_secs(10) {
            write!(f, "{}s", nanos.div_ceil(1_000_000_000))
        } else {
            write!(f, "{}ms", nanos.div_ceil(1_000_000))
        }
    }
}
