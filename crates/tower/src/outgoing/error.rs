//! Why a call was not made.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::limit::parse::Span;
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Outcome, Verdict};

/// The call was not made: a rule or the server's own advice stood in the way. Nothing was sent, and
/// nothing is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The service that was to be called, or its host and port.
    pub destination: Arc<str>,
    /// What stood in the way.
    pub by: LimitedBy,
    /// "Not now", with the exact wait where there is one, or "not ever".
    pub verdict: Verdict,
}

/// What stood in the way of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// A limit of this rule.
    Rule(String),
    /// A rule that protects this process.
    Strain {
        /// Its name.
        rule: String,
        /// The readings for which it holds calls back, and what it lets out.
        reason: String,
    },
    /// A ban by this rule.
    Ban(String),
    /// The deny list.
    DenyList,
    /// The server asked not to be called, for longer than calls wait.
    RetryAfter,
    /// The server's budget is spent, for longer than calls wait.
    Budget,
    /// The server holds calls back, and too many wait already.
    LineFull,
    /// The server turns calls away, and most are not made.
    Throttle,
}

impl Limited {
    /// What refused the call.
    pub(super) fn by_rules(destination: &Arc<str>, outcome: &Outcome) -> Self {
        let rule = outcome.rule().map(|rule| rule.name.clone()).unwrap_or_default();
        let by = match outcome.cause() {
            Cause::DenyList(_) => LimitedBy::DenyList,
            Cause::Ban(_) => LimitedBy::Ban(rule),
            Cause::Strain(_) => {
                let reason = outcome.strain().map(|notice| notice.reason.clone()).unwrap_or_default();
                LimitedBy::Strain { rule, reason }
            }
            Cause::Rules | Cause::AllowList(_) | Cause::Limit(_) => LimitedBy::Rule(rule),
        };
        Self { destination: Arc::clone(destination), by, verdict: outcome.verdict() }
    }

    pub(super) fn by_advice(destination: &Arc<str>, by: LimitedBy, wait: Duration) -> Self {
        let verdict = Verdict::Denied { retry_after: Some(wait) };
        Self { destination: Arc::clone(destination), by, verdict }
    }

    pub(super) fn by_throttle(destination: Arc<str>, wait: Duration) -> Self {
        Self { destination, by: LimitedBy::Throttle, verdict: Verdict::Denied { retry_after: Some(wait) } }
    }

    /// The exact time after which the call would be made if nobody else came. `None` if no clock can
    /// tell.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Denied { retry_after } => retry_after,
            Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => None,
        }
    }

    /// Finds it in an error, or in what caused that error.
    ///
    /// ```
    /// use sluicegate_tower::outgoing::Limited;
    ///
    /// let error = std::io::Error::other("something else");
    /// assert!(Limited::find(&error).is_none());
    /// ```
    pub fn find<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(limited) = error.downcast_ref() {
                return Some(limited);
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call to {} not made: ", self.destination)?;
        match &self.by {
            LimitedBy::Rule(rule) if self.verdict == Verdict::Never => {
                return write!(f, "it costs more than the limit of rule {rule} itself");
            }
            LimitedBy::Rule(rule) => write!(f, "over the limit of rule {rule}")?,
            LimitedBy::Strain { rule, reason } => write!(f, "rule {rule} holds calls back ({reason})")?,
            LimitedBy::Ban(rule) => write!(f, "banned by rule {rule}")?,
            LimitedBy::DenyList => return f.write_str("it is on the deny list"),
            LimitedBy::RetryAfter => f.write_str("the server asked not to be called")?,
            LimitedBy::Budget => f.write_str("the server's budget is spent")?,
            LimitedBy::LineFull => f.write_str("the server holds calls back, and too many wait already")?,
            LimitedBy::Throttle => f.write_str("the server turns calls away")?,
        }
        match self.retry_after() {
            Some(wait) => write!(f, ": try again in {}", Span(in_millis(wait))),
            None => f.write_str(": try again when others have finished"),
        }
    }
}

impl Error for Limited {}

/// Rounded up to whole milliseconds, for people.
fn in_millis(wait: Duration) -> Duration {
    Duration::from_millis(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}
