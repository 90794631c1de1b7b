//! Result of one descriptor.

use std::time::Duration;

use sluicegate_engine::sluice::{Cause, RuleDecision};
use sluicegate_engine::{Outcome, Verdict};
use sluicegate_http_adapter::headers::AdHocQuota;
use sluicegate_import::envoy_ratelimit::RateLimitUnit;

use super::descriptor_check::{CheckState, DescriptorCheck};
use super::limit::to_rate_limit;
use super::proto::{Code, DescriptorStatus, RateLimit};

/// Name of a limit override in client headers.
const OVERRIDE_NAME: &str = "override";

/// The result of a descriptor, as reported in the response.
pub(super) struct DescriptorResult<'c> {
    pub(super) verdict: Verdict,
    /// Set when this result refuses the request.
    pub(super) refuses_request: bool,
    /// The outcome of the rules, if they decided.
    pub(super) outcome: Option<&'c Outcome>,
    /// The rule that decided.
    pub(super) rule: Option<&'c str>,
    /// Name of the limit in the ratelimit configuration, if any.
    name: Option<&'c str>,
    /// True if the limit is in shadow mode.
    pub(super) shadow: bool,
    limit: Option<RateLimit>,
    pub(super) remaining: u32,
    reset: Option<Duration>,
}

impl<'c> DescriptorResult<'c> {
    /// Builds the result of a decided check. A delay beyond `max_delay` becomes a refusal.
    pub(super) fn new(check: &'c DescriptorCheck, max_delay: Option<Duration>) -> Self {
        let checked_limit = check.limit.as_ref();
        let limit = || checked_limit.map(|limit| limit.rate_limit.clone());
        let mut result = Self {
            verdict: Verdict::Allowed,
            refuses_request: false,
            outcome: None,
            rule: None,
            name: checked_limit.and_then(|limit| limit.name.as_deref()),
            shadow: checked_limit.is_some_and(|limit| limit.shadow),
            limit: None,
            remaining: 0,
            reset: None,
        };
        match &check.state {
            CheckState::NoLimit
            | CheckState::RefundLater
            | CheckState::PendingRefund(..)
            | CheckState::PendingWindow(..) => {}
            CheckState::Unlimited => result.remaining = u32::MAX,
            CheckState::Blocked => {
                result.limit = limit();
                result.verdict = if result.shadow { Verdict::Allowed } else { Verdict::Never };
            }
            CheckState::Window(window, _) => {
                result.limit = limit();
                result.verdict = match (window.limited, window.retry_after) {
                    (false, _) => Verdict::Allowed,
                    (true, Some(_)) => Verdict::Denied { retry_after: window.retry_after },
                    (true, None) => Verdict::Never,
                };
                result.remaining = saturating_u32(window.remaining);
                result.reset = Some(window.reset_after);
            }
            CheckState::Pending(_) | CheckState::Decided(_) => {
                result.rule = result.name;
                if let Some(outcome) = check.outcome() {
                    result.apply_outcome(outcome, limit());
                }
            }
        }
        if check.is_refund {
            result.verdict = Verdict::Allowed;
        }
        if let Verdict::Wait(delay) = result.verdict
            && max_delay.is_some_and(|max_delay| max_delay < delay)
        {
            result.verdict = Verdict::Denied { retry_after: Some(delay) };
        }
        result.refuses_request = !result.verdict.is_admitted() && checked_limit.is_none_or(|limit| !limit.quota);
        result
    }

    /// Applies the outcome of the rules; `limit` is the limit to report, if known.
    fn apply_outcome(&mut self, outcome: &'c Outcome, limit: Option<RateLimit>) {
        (self.verdict, self.outcome) = (outcome.verdict(), Some(outcome));
        // A shadow rule counts if it is the descriptor's own limit.
        let decisions = outcome.decisions().filter(|(_, checked)| limit.is_some() || !checked.shadow);
        let tightest =
            |(_, checked): &(_, RuleDecision)| (checked.decision.is_admitted(), checked.decision.status.remaining);
        if let Some((rule, checked)) = decisions.min_by_key(tightest) {
            let decided = || rule.limits.get(checked.decision.limit).map(|limit| to_rate_limit(rule, limit));
            self.rule = Some(&rule.name);
            self.limit = limit.or_else(decided);
            self.remaining = saturating_u32(checked.decision.status.remaining);
            let wait = if checked.decision.is_admitted() { None } else { checked.decision.wait() };
            self.reset = Some(checked.decision.reset().max(wait.unwrap_or_default()));
        } else if let (Cause::Ban(_), Verdict::Denied { retry_after }) = (outcome.cause(), outcome.verdict()) {
            self.rule = outcome.rule().map(|rule| rule.name.as_str());
            self.reset = retry_after;
        }
    }

    /// True if a limit decided.
    pub(super) fn has_decision(&self) -> bool {
        self.limit.is_some() || !self.verdict.is_admitted()
    }

    /// Remaining quota of a limit that is reported without a rule: an override or a limit of zero.
    pub(super) fn adhoc_quota(&self) -> Option<AdHocQuota<'_>> {
        let limit = self.limit.as_ref().filter(|_| !self.shadow && self.outcome.is_none())?;
        let unit = RateLimitUnit::from_proto_value(limit.unit).map(RateLimitUnit::duration);
        Some(AdHocQuota {
            name: self.name.unwrap_or(OVERRIDE_NAME),
            quota: limit.requests_per_unit.into(),
            window: unit.map(|unit| unit.saturating_mul(limit.unit_multiplier.unwrap_or(1))),
            remaining: self.remaining.into(),
            reset: self.reset,
        })
    }

    /// Delay before the request may proceed.
    pub(super) fn delay(&self) -> Duration {
        match self.verdict {
            Verdict::Wait(delay) => delay,
            _ => Duration::ZERO,
        }
    }

    /// Time until a retry; `None` if admitted or if a retry cannot succeed.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let is_listed = self.outcome.is_some_and(|outcome| matches!(outcome.cause(), Cause::DenyList(_)));
        match self.verdict {
            Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => None,
            Verdict::Denied { .. } if is_listed => None,
            // It depends on other requests: the time is unknown, but an immediate retry would be too early.
            Verdict::Denied { retry_after } => Some(retry_after.unwrap_or(Duration::from_secs(1))),
        }
    }

    /// The status reported to the proxy.
    pub(super) fn into_status(self) -> DescriptorStatus {
        DescriptorStatus {
            code: if self.verdict.is_admitted() { Code::Ok } else { Code::OverLimit }.into(),
            current_limit: self.limit,
            limit_remaining: self.remaining,
            duration_until_reset: self.reset.map(prost_duration),
        }
    }
}

fn saturating_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Converts a duration, saturating.
fn prost_duration(time: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: time.subsec_nanos().try_into().unwrap_or_default() }
}
