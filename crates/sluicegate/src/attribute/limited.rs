//! Error of a refused call.

use std::fmt;
use std::time::Duration;

use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::sluice::Cause;
use sluicegate_engine::{Decision, Limit, Outcome, Verdict};
use thiserror::Error;

/// A call that `#[limit]` refused.
///
/// ```
/// use sluicegate::{Limited, limit};
///
/// #[derive(Debug, thiserror::Error)]
/// enum OrderError {
///     #[error(transparent)]
///     Busy(#[from] Limited),
/// }
///
/// #[limit("1/1h")]
/// fn order() -> Result<u32, OrderError> {
///     Ok(1)
/// }
///
/// assert_eq!(order()?, 1);
/// let OrderError::Busy(limited) = order().unwrap_err();
/// assert!(limited.name().ends_with("order"));
/// assert_eq!(limited.limit(), Some(&"1/1h".parse()?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct Limited {
    name: &'static str,
    cause: LimitedCause,
    verdict: Verdict,
}

/// Cause of a refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LimitedCause {
    /// A limit of the function.
    Function(Option<Limit>),
    /// A limit of the rule.
    Rule(Option<Limit>),
    /// A ban by the rule.
    Ban,
    /// Overload protection by the rule, with the readings if they are known.
    Overload(Option<Box<str>>),
    /// The deny list.
    DenyList,
}

impl Limited {
    /// Refusal by a limit of the function at `path`.
    pub(super) const fn function(path: &'static str, limit: Option<Limit>, decision: &Decision) -> Self {
        Self { name: path, cause: LimitedCause::Function(limit), verdict: decision.verdict }
    }

    /// Refusal by the rule with this name, or by the deny list.
    pub(super) fn rule(name: &'static str, outcome: &Outcome) -> Self {
        let cause = match outcome.cause() {
            Cause::DenyList(_) => LimitedCause::DenyList,
            Cause::Ban(_) => LimitedCause::Ban,
            Cause::Overload(_) => {
                LimitedCause::Overload(outcome.overload_notice().map(|notice| notice.reason.as_str().into()))
            }
            Cause::Rules | Cause::AllowList(_) | Cause::Limit(_) => LimitedCause::Rule(outcome.limit().copied()),
        };
        Self { name, cause, verdict: outcome.verdict() }
    }

    /// Path of the function, or name of the rule that limits it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The limit that refused the call; `None` for a ban, the deny list, or overload protection.
    pub const fn limit(&self) -> Option<&Limit> {
        match &self.cause {
            LimitedCause::Function(limit) | LimitedCause::Rule(limit) => limit.as_ref(),
            LimitedCause::Ban | LimitedCause::Overload(_) | LimitedCause::DenyList => None,
        }
    }

    /// The readings and the limit of overload protection, if it refused the call: `cpu 97% > 90%: at most 100 per
    /// 1s`.
    pub const fn reason(&self) -> Option<&str> {
        match &self.cause {
            LimitedCause::Overload(Some(reason)) => Some(reason),
            _ => None,
        }
    }

    /// Exact time until the call would be admitted, without other calls. `None` if the time is unknown, or if the
    /// call can never be admitted.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Denied { retry_after } => retry_after,
            Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => None,
        }
    }

    /// True if a retry is useless, because the cost exceeds the limit.
    pub const fn is_permanent(&self) -> bool {
        matches!(self.verdict, Verdict::Never)
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, limit) = (self.name, ShortLimit(self.limit()));
        match (&self.cause, self.verdict) {
            (LimitedCause::DenyList, _) => return write!(f, "on the deny list (rule '{name}' not checked)"),
            (LimitedCause::Function(_), Verdict::Never) => {
                return write!(f, "cost exceeds the limit{limit} of {name}");
            }
            (LimitedCause::Rule(_), Verdict::Never) => {
                return write!(f, "cost exceeds the limit{limit} of rule '{name}'");
            }
            (LimitedCause::Ban, _) => write!(f, "banned by rule '{name}'")?,
            (LimitedCause::Overload(Some(reason)), _) => {
                write!(f, "limited by overload protection '{name}' ({reason})")?;
            }
            (LimitedCause::Overload(None), _) => write!(f, "limited by overload protection '{name}'")?,
            (LimitedCause::Function(_), _) => write!(f, "over the limit{limit} of {name}")?,
            (LimitedCause::Rule(_), _) => write!(f, "over the limit{limit} of rule '{name}'")?,
        }
        match self.retry_after() {
            Some(wait) => write!(f, ": try again in {}", HumanDuration::rounded_up(wait)),
            None => f.write_str(": try again when running calls have finished"),
        }
    }
}

/// A limit in its shortest form, with a leading space.
struct ShortLimit<'a>(Option<&'a Limit>);

impl fmt::Display for ShortLimit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(limit) => write!(f, " {}", limit.short_notation()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::Limiter;

    use super::*;

    fn message(limit: &str, verdict: Verdict, cause: fn(Option<Limit>) -> LimitedCause) -> String {
        let cause = cause(Some(limit.parse().unwrap()));
        Limited { name: "shop::order", cause, verdict }.to_string()
    }

    #[test]
    fn the_message_names_limit_function_and_wait() {
        let in_1500ms = Verdict::Denied { retry_after: Some(Duration::from_micros(1_499_001)) };
        assert_eq!(
            message("2/3s", in_1500ms, LimitedCause::Function),
            "over the limit 2/3s of shop::order: try again in 1500ms"
        );
        assert_eq!(
            message("2/3s", in_1500ms, LimitedCause::Rule),
            "over the limit 2/3s of rule 'shop::order': try again in 1500ms"
        );
        assert_eq!(
            message("2/3s", Verdict::Never, LimitedCause::Function),
            "cost exceeds the limit 2/3s of shop::order"
        );
    }

    #[test]
    fn other_limits_are_written_in_full() {
        let permits = Limit::concurrency(2).unwrap();
        let decision = Limiter::new(permits).check_cost(3);
        let never = Limited::function("f", Some(permits), &decision);
        assert!(never.is_permanent() && never.retry_after().is_none());
        assert_eq!(never.to_string(), "cost exceeds the limit concurrency 2 of f");
        let fine = Limit::sliding_window(15, Duration::from_secs(3), 30).unwrap();
        assert_eq!(ShortLimit(Some(&fine)).to_string(), " sliding_window 15/3s, 30 cells");
    }

    #[test]
    fn the_error_is_small_enough_to_be_returned() {
        assert!(size_of::<Limited>() <= 128, "the threshold of clippy::result_large_err");
    }
}
