//! Result of a limit decision, with all data a wire format needs.
//!
//! ```
//! use sluicegate_engine::{Limiter, Verdict};
//!
//! let limiter = Limiter::builder().limit("2/1m".parse()?).build()?;
//! let decision = limiter.check();
//! assert_eq!(decision.verdict, Verdict::Allowed);
//! assert_eq!((decision.status.limit, decision.status.remaining), (2, 1));
//!
//! limiter.check();
//! assert!(matches!(limiter.check().verdict, Verdict::Denied { .. }));
//! assert!(matches!(limiter.check_cost(3).verdict, Verdict::Never));
//! # Ok::<(), sluicegate_engine::LimitError>(())
//! ```

use std::time::Duration;

use crate::algorithm::gcra::{Gcra, nanos_covering};
use crate::algorithm::{Check, Status};
use crate::time::saturating_nanos;

/// Verdict on one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted now.
    Allowed,
    /// Admitted after exactly this wait; the queue slot is reserved.
    Wait(Duration),
    /// Refused for now.
    Denied {
        /// Exact time after which the request would be allowed if no other request arrives. `None` if that
        /// depends on other callers releasing permits or reservations.
        retry_after: Option<Duration>,
    },
    /// Refused for good: the cost exceeds the limit itself.
    Never,
}

impl Verdict {
    /// True if the request is admitted, immediately or after a wait.
    #[inline]
    pub const fn is_admitted(self) -> bool {
        matches!(self, Self::Allowed | Self::Wait(_))
    }
}

/// Decision of a limiter about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Index of the limit that determined the verdict: the one with the longest wait if refused, else the
    /// one with the least remaining.
    pub limit: usize,
    /// State of that limit after the decision.
    pub status: Status,
}

impl Decision {
    /// True if the request is admitted immediately.
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed)
    }

    /// True if the request is admitted, immediately or after a wait.
    #[inline]
    pub const fn is_admitted(&self) -> bool {
        self.verdict.is_admitted()
    }

    /// Time to wait before proceeding, or before retrying. Zero if allowed, `None` if the wait is unknown.
    pub const fn wait(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Allowed => Some(Duration::ZERO),
            Verdict::Wait(pause) => Some(pause),
            Verdict::Denied { retry_after } => retry_after,
            Verdict::Never => None,
        }
    }

    /// Time until the full limit is available again if no other request arrives.
    pub const fn reset(&self) -> Duration {
        Duration::from_nanos(self.status.reset)
    }
}

impl Check {
    /// The verdict for the caller.
    #[inline]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Now => Verdict::Allowed,
            Self::After(pause) => Verdict::Wait(Duration::from_nanos(pause)),
            Self::NotBefore(wait) => Verdict::Denied { retry_after: Some(Duration::from_nanos(wait)) },
            Self::Held => Verdict::Denied { retry_after: None },
            Self::Never => Verdict::Never,
        }
    }
}

impl From<Verdict> for Check {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allowed => Self::Now,
            Verdict::Wait(pause) => Self::After(saturating_nanos(pause)),
            Verdict::Denied { retry_after: Some(wait) } => Self::NotBefore(saturating_nanos(wait)),
            Verdict::Denied { retry_after: None } => Self::Held,
            Verdict::Never => Self::Never,
        }
    }
}

impl Gcra {
    /// Decision about this bucket alone, given the arrival time after it.
    #[inline(always)]
    pub(crate) const fn decision(&self, check: Check, arrival: u64, now: u64) -> Decision {
        let status = Status {
            limit: self.burst(),
            remaining: self.remaining(arrival, now),
            reset: nanos_covering(arrival.saturating_sub(now)),
        };
        Decision { verdict: check.verdict(), limit: 0, status }
    }
}
