//! Error of a call that was not made.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Outcome, Verdict};

/// The call was not made because of a rule or a server hint. Nothing was sent, and
/// no permit is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The called service, or its host and port.
    pub destination: Arc<str>,
    /// The cause.
    pub by: LimitedBy,
    /// "Not now", with the exact wait if known, or "never".
    pub verdict: Verdict,
}

/// Cause of a refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitedBy {
    /// A limit of this rule.
    Rule(String),
    /// An overload-protection rule of this process.
    Overload {
        /// Its name.
        rule: String,
        /// The readings that caused it, and the resulting limit.
        reason: String,
    },
    /// A ban by this rule.
    Ban(String),
    /// The deny list.
    DenyList,
    /// The server sent `Retry-After` with a longer time than calls may wait.
    RetryAfter,
    /// The server's budget is spent for a longer time than calls may wait.
    Budget,
    /// Calls wait for the server, and the queue is full.
    QueueFull,
    /// The server rejects calls, and most are not made.
    Throttle,
}

impl Limited {
    /// The error for a refusal by the rules.
    pub(super) fn by_rules(destination: &Arc<str>, outcome: &Outcome) -> Self {
        let rule = outcome.rule().map(|rule| rule.name.clone()).unwrap_or_default();
        let by = match outcome.cause() {
            Cause::DenyList(_) => LimitedBy::DenyList,
            Cause::Ban(_) => LimitedBy::Ban(rule),
            Cause::Overload(_) => {
                let reason = outcome.overload_notice().map(|notice| notice.reason.clone()).unwrap_or_default();
                LimitedBy::Overload { rule, reason }
            }
            Cause::Rules | Cause::AllowList(_) | Cause::Limit(_) => LimitedBy::Rule(rule),
        };
        Self { destination: Arc::clone(destination), by, verdict: outcome.verdict() }
    }

    pub(super) fn by_server(destination: &Arc<str>, by: LimitedBy, wait: Duration) -> Self {
        let verdict = Verdict::Denied { retry_after: Some(wait) };
        Self { destination: Arc::clone(destination), by, verdict }
    }

    pub(super) fn by_throttle(destination: Arc<str>, wait: Duration) -> Self {
        Self { destination, by: LimitedBy::Throttle, verdict: Verdict::Denied { retry_after: Some(wait) } }
    }

    /// The exact time after which the call would be made without competing calls. `None` if it does not depend
    /// on time.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Denied { retry_after } => retry_after,
            Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => None,
        }
    }

    /// Finds it in an error or its sources.
    ///
    /// ```
    /// use sluicegate_tower::client::Limited;
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
                return write!(f, "the cost exceeds the limit of rule {rule}");
            }
            LimitedBy::Rule(rule) => write!(f, "over the limit of rule {rule}")?,
            LimitedBy::Overload { rule, reason } => write!(f, "limited by overload protection {rule} ({reason})")?,
            LimitedBy::Ban(rule) => write!(f, "banned by rule {rule}")?,
            LimitedBy::DenyList => return f.write_str("on the deny list"),
            LimitedBy::RetryAfter => f.write_str("the server sent Retry-After")?,
            LimitedBy::Budget => f.write_str("the quota of the server is used up")?,
            LimitedBy::QueueFull => f.write_str("the queue for the server is full")?,
            LimitedBy::Throttle => f.write_str("throttled, because the server rejects calls")?,
        }
        match self.retry_after() {
            Some(wait) => write!(f, ": try again in {}", HumanDuration(in_millis(wait))),
            None => f.write_str(": try again when running calls have finished"),
        }
    }
}

impl Error for Limited {}

/// Rounds up to whole milliseconds, for display.
fn in_millis(wait: Duration) -> Duration {
    Duration::from_millis(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}
