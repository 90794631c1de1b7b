//! What a refused call is told.

use std::fmt;
use std::time::Duration;

use sluicegate_engine::limit::parse::Span;
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
    why: Why,
    verdict: Verdict,
}

/// What stood in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    /// A limit that belongs to the function.
    Function(Option<Limit>),
    /// A limit of the rule.
    Rule(Option<Limit>),
    /// A ban by the rule.
    Ban,
    /// The rule, which protects the process under strain, for these readings if they are known.
    Strain(Option<Box<str>>),
    /// The deny list.
    DenyList,
}

impl Limited {
    /// By a limit of the function at `path`.
    pub(super) const fn function(path: &'static str, limit: Option<Limit>, decision: &Decision) -> Self {
        Self { name: path, why: Why::Function(limit), verdict: decision.verdict }
    }

    /// By the rule of this name, or by the lists before it.
    pub(super) fn rule(name: &'static str, outcome: &Outcome) -> Self {
        let why = match outcome.cause() {
            Cause::DenyList(_) => Why::DenyList,
            Cause::Ban(_) => Why::Ban,
            Cause::Strain(_) => Why::Strain(outcome.strain().map(|notice| notice.reason.as_str().into())),
            Cause::Rules | Cause::AllowList(_) | Cause::Limit(_) => Why::Rule(outcome.limit().copied()),
        };
        Self { name, why, verdict: outcome.verdict() }
    }

    /// The function's path, or the name of the rule that the function is limited by.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The limit that refused; `None` if it was a ban, the deny list, or the strain on the process.
    pub const fn limit(&self) -> Option<&Limit> {
        match &self.why {
            Why::Function(limit) | Why::Rule(limit) => limit.as_ref(),
            Why::Ban | Why::Strain(_) | Why::DenyList => None,
        }
    }

    /// The readings for which the rule holds calls back, and what it lets in, if that is what refused:
    /// `cpu 97% > 90%: at most 100 per 1s`.
    pub const fn reason(&self) -> Option<&str> {
        match &self.why {
            Why::Strain(Some(reason)) => Some(reason),
            _ => None,
        }
    }

    /// The exact time after which the call would be admitted if nobody else came. `None` if no clock can
    /// tell, or if it never would.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.verdict {
            Verdict::Denied { retry_after } => retry_after,
            Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => None,
        }
    }

    /// Whether there is no point in trying again: the call costs more than the limit itself.
    pub const fn is_for_ever(&self) -> bool {
        matches!(self.verdict, Verdict::Never)
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, limit) = (self.name, Short(self.limit()));
        match (&self.why, self.verdict) {
            (Why::DenyList, _) => return write!(f, "on the deny list, which comes before rule '{name}'"),
            (Why::Function(_), Verdict::Never) => {
                return write!(f, "costs more than the limit{limit} of {name} itself");
            }
            (Why::Rule(_), Verdict::Never) => {
                return write!(f, "costs more than the limit{limit} of rule '{name}' itself");
            }
            (Why::Ban, _) => write!(f, "banned by rule '{name}'")?,
            (Why::Strain(Some(reason)), _) => write!(f, "held back by rule '{name}' ({reason})")?,
            (Why::Strain(None), _) => write!(f, "held back by rule '{name}', as the process is under strain")?,
            (Why::Function(_), _) => write!(f, "over the limit{limit} of {name}")?,
            (Why::Rule(_), _) => write!(f, "over the limit{limit} of rule '{name}'")?,
        }
        match self.retry_after() {
            Some(wait) => write!(f, ": try again in {}", Span::for_people(wait)),
            None => f.write_str(": try again when others have finished"),
        }
    }
}

/// A limit as briefly as it can be written, with a space before it.
struct Short<'a>(Option<&'a Limit>);

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(limit) = self.0 else { return Ok(()) };
        if let Limit::SlidingWindow(window) = limit {
            let short = format!("{}/{}", window.limit(), Span(window.window()));
            if short.parse() == Ok(*limit) {
                return write!(f, " {short}");
            }
        }
        write!(f, " {limit}")
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::Limiter;

    use super::*;

    fn said(limit: &str, verdict: Verdict, why: fn(Option<Limit>) -> Why) -> String {
        let why = why(Some(limit.parse().unwrap()));
        Limited { name: "shop::order", why, verdict }.to_string()
    }

    #[test]
    fn the_message_says_which_limit_of_what_and_until_when() {
        let in_1500ms = Verdict::Denied { retry_after: Some(Duration::from_micros(1_499_001)) };
        assert_eq!(said("2/3s", in_1500ms, Why::Function), "over the limit 2/3s of shop::order: try again in 1500ms");
        assert_eq!(
            said("2/3s", in_1500ms, Why::Rule),
            "over the limit 2/3s of rule 'shop::order': try again in 1500ms"
        );
        assert_eq!(said("2/3s", Verdict::Never, Why::Function), "costs more than the limit 2/3s of shop::order itself");
    }

    #[test]
    fn other_forms_are_written_out() {
        let permits = Limit::concurrency(2).unwrap();
        let decision = Limiter::new(permits).check_cost(3);
        let never = Limited::function("f", Some(permits), &decision);
        assert!(never.is_for_ever() && never.retry_after().is_none());
        assert_eq!(never.to_string(), "costs more than the limit concurrency 2 of f itself");
        let fine = Limit::sliding_window(15, Duration::from_secs(3), 30).unwrap();
        assert_eq!(Short(Some(&fine)).to_string(), " sliding_window 15/3s, 30 cells");
    }

    #[test]
    fn it_is_small_enough_to_be_returned() {
        assert!(size_of::<Limited>() <= 128, "clippy::result_large_err begins there");
    }
}
