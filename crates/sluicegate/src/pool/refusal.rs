//! Why a caller was not let in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// Why a caller was not let in, and how its class stood then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Refusal {
    /// The class.
    pub class: Arc<str>,
    /// What stood in the way.
    pub cause: Cause,
    /// Places the class had in use.
    pub in_use: usize,
    /// The most it may use.
    pub max: usize,
    /// How long the caller was in line.
    pub waited: Duration,
}

/// What stood in the way of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No place came free in time.
    NoPlace,
    /// Too many were waiting already.
    LineFull {
        /// So many.
        waiting: usize,
    },
    /// A limit of the class, although there was a place.
    Limit {
        /// When the limit would admit it. `None` if that hangs on others giving back what they hold.
        retry_after: Option<Duration>,
    },
}

impl Refusal {
    /// When it makes sense to try again, where a clock can tell.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.cause {
            Cause::Limit { retry_after } => retry_after,
            Cause::NoPlace | Cause::LineFull { .. } => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, cause, in_use, max, waited } = self;
        match cause {
            Cause::NoPlace => {
                write!(f, "no place for {class}: {in_use} of {max} in use")?;
                if in_use < max {
                    f.write_str(", the others taken or reserved")?;
                }
            }
            Cause::LineFull { waiting } => {
                write!(f, "no place for {class}: {in_use} of {max} in use and {waiting} waiting")?;
            }
            Cause::Limit { retry_after: Some(wait) } => {
                write!(f, "{class} over the limit: try again in {}", ForPeople(*wait))?;
            }
            Cause::Limit { retry_after: None } => {
                write!(f, "{class} over the limit: try again when others have finished")?;
            }
        }
        if !waited.is_zero() {
            write!(f, "; waited {}", ForPeople(*waited))?;
        }
        Ok(())
    }
}

/// A wait rounded up to what people read: whole milliseconds, or whole seconds from ten on.
struct ForPeople(Duration);

impl fmt::Display for ForPeople {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        if self.0 >= Duration::from_secs(10) {
            write!(f, "{}s", nanos.div_ceil(1_000_000_000))
        } else {
            write!(f, "{}ms", nanos.div_ceil(1_000_000))
        }
    }
}
