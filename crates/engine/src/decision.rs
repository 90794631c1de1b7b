//! What was decided, with enough in it to render any wire format.
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

use crate::algorithm::Status;

/// The four ways a request can fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Allowed,
    /// Go on after exactly this pause; the place in line is taken.
    Wait(Duration),
    /// Not now.
    Denied {
        /// The exact time after which it would be allowed if nobody else came. `None` if that depends
        /// on others giving back what they hold.
        retry_after: Option<Duration>,
    },
    /// Not ever: it costs more than the limit itself.
    Never,
}

impl Verdict {
    /// Whether the request may go on, at once or after its pause.
    #[inline]
    pub const fn is_admitted(self) -> bool {
        matches!(self, Self::Allowed | Self::Wait(_))
    }
}

/// What a limiter decided about one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The outcome.
    pub verdict: Verdict,
    /// Which of the limiter's limits it hangs on, by position: the one with the longest wait if
    /// refused, else the one with the least left.
    pub limit: usize,
    /// What is left of that limit after the decision.
    pub status: Status,
}

impl Decision {
    /// Whether the request may go on right now.
    #[inline]
    pub const fn is_allowed(&self) -> bool {
        matches!(self.verdict, Verdict::Allowed)
    }

    /// Whether the request may go on, at once or after a pause.
    #[inline]
    pub const fn is_admitted(&self) -> bool {
        self.verdict.is_admitted()
    }

    /// How long to wait before going on, or before asking again; zero if allowed, `None` if no clock
    /// can tell.
    pub const fn wait(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Allowed => Some(Duration::ZERO),
            Verdict::Wait(pause) => Some(pause),
            Verdict::Denied { retry_after } => retry_after,
            Verdict::Never => None,
        }
    }

    /// Time until everything is available again if nobody comes.
    pub const fn reset(&self) -> Duration {
        Duration::from_nanos(self.status.reset)
    }
}
