//! Verdicts of single rules and of all rules together.

use std::time::Duration;

use serde::Serialize;
use sluicegate_engine::limit::parse::HumanDuration;
use sluicegate_engine::rule::{Mode, Scope};
use sluicegate_engine::sluice::RuleExplanation;
use sluicegate_engine::{Limit, Verdict};
use utoipa::ToSchema;

/// Verdict of all rules together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum CombinedVerdict {
    Allowed,
    Refused,
    Wait,
}

/// Verdict of one rule. `never`: the cost exceeds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = RuleVerdict)]
pub(super) enum VerdictName {
    Allowed,
    Refused,
    Never,
    Wait,
}

/// Cause of a refusal or wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum VerdictCause {
    Ban,
    Overload,
    Limit,
}

/// Verdict of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RuleVerdict {
    pub(super) rule: String,
    key: String,
    /// `None` if it decides nothing here.
    pub(super) verdict: Option<VerdictName>,
    /// The deciding limit.
    pub(super) limit: Option<String>,
    pub(super) wait: Option<Duration>,
    banned: Option<Duration>,
    /// Reason for an overload refusal, if it is one.
    overload_reason: Option<String>,
    is_shadow: bool,
    needs_store: bool,
}

impl RuleVerdict {
    pub(super) fn new(it: &RuleExplanation) -> Self {
        let limit = it.decision.and_then(|decision| it.rule.limits.get(decision.limit)).map(Limit::short_notation);
        let closed = it.gate.as_ref().and_then(|gate| Some((gate.open.err()?, gate)));
        let admits = it.decision.is_none_or(|decision| decision.is_admitted());
        let closed = closed.filter(|_| it.banned.is_none() && admits);
        let (verdict, wait) = match (it.banned, it.decision.map(|decision| decision.verdict)) {
            _ if let Some((error, _)) = &closed => (Some(VerdictName::Refused), error.retry_after),
            (None, None) if it.gate.is_some() => (Some(VerdictName::Allowed), None),
            (Some(banned), _) => (Some(VerdictName::Refused), Some(banned)),
            (None, None) => (None, None),
            (None, Some(Verdict::Allowed)) => (Some(VerdictName::Allowed), None),
            (None, Some(Verdict::Wait(pause))) => (Some(VerdictName::Wait), Some(pause)),
            (None, Some(Verdict::Never)) => (Some(VerdictName::Never), None),
            (None, Some(Verdict::Denied { retry_after })) => {
                let is_queued = it.rule.on_limit.queue.is_some_and(|queue| {
                    retry_after.is_none_or(|wait| wait <= queue.max_wait) && it.rule.mode != Mode::Shadow
                });
                (Some(if is_queued { VerdictName::Wait } else { VerdictName::Refused }), retry_after)
            }
        };
        Self {
            rule: it.rule.name.clone(),
            key: it.key.clone().unwrap_or_default(),
            verdict,
            limit,
            wait,
            banned: it.banned,
            overload_reason: closed.map(|(_, gate)| gate.notice.reason.clone()),
            is_shadow: it.rule.mode == Mode::Shadow,
            needs_store: it.decision.is_none()
                && !it.rule.limits.is_empty()
                && matches!(it.rule.scope, Scope::Cluster { .. }),
        }
    }

    fn is(&self, verdict: VerdictName) -> bool {
        !self.is_shadow && self.verdict == Some(verdict)
    }

    /// Cause of a refusal or wait; `None` if the rule admits the request.
    pub(super) fn cause(&self) -> Option<VerdictCause> {
        match self.verdict {
            _ if self.banned.is_some() => Some(VerdictCause::Ban),
            Some(VerdictName::Allowed) | None => None,
            Some(_) if self.overload_reason.is_some() => Some(VerdictCause::Overload),
            Some(_) => Some(VerdictCause::Limit),
        }
    }

    /// Rule and key as text.
    fn label(&self) -> String {
        match self.key.is_empty() {
            true => format!("rule '{}'", self.rule),
            false => format!("rule '{}' for {}", self.rule, self.key),
        }
    }

    fn limit(&self) -> &str {
        self.limit.as_deref().unwrap_or("its limit")
    }
}

/// Combines the verdicts into a result with its reason.
pub(super) fn combine(verdicts: &[RuleVerdict]) -> (CombinedVerdict, String) {
    if let Some(by) = verdicts.iter().find(|it| !it.is_shadow && it.banned.is_some()) {
        let left = by.banned.map(format_duration).unwrap_or_default();
        return (CombinedVerdict::Refused, format!("{}: banned for another {left}", by.label()));
    }
    if let Some(by) = verdicts.iter().find(|it| it.is(VerdictName::Never)) {
        return (CombinedVerdict::Refused, format!("{}: the cost exceeds the limit {}", by.label(), by.limit()));
    }
    if let Some(by) = verdicts.iter().find(|it| it.is(VerdictName::Refused) && it.overload_reason.is_some()) {
        let reason =
            by.overload_reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("the process is overloaded");
        return (CombinedVerdict::Refused, format!("{}: overload protection is active: {reason}", by.label()));
    }
    if let Some(by) =
        verdicts.iter().filter(|it| it.is(VerdictName::Refused)).max_by_key(|it| it.wait.unwrap_or(Duration::MAX))
    {
        return (
            CombinedVerdict::Refused,
            format!("{}: {} is exhausted, {}", by.label(), by.limit(), retry_text(by.wait)),
        );
    }
    if let Some(by) =
        verdicts.iter().filter(|it| it.is(VerdictName::Wait)).max_by_key(|it| it.wait.unwrap_or(Duration::MAX))
    {
        let wait = match by.wait {
            Some(wait) => format!("for {}", format_duration(wait)),
            None => "until other requests finish".to_owned(),
        };
        return (CombinedVerdict::Wait, format!("{}: queued by {} {wait}", by.label(), by.limit()));
    }
    (CombinedVerdict::Allowed, allowed(verdicts))
}

fn allowed(verdicts: &[RuleVerdict]) -> String {
    let mut reason = match verdicts {
        [] => return "no rule applies".to_owned(),
        [only] => format!("{} admits it", only.label()),
        all => format!("all {} matching rules admit it", all.len()),
    };
    let named = |pick: &dyn Fn(&RuleVerdict) -> bool| {
        let names: Vec<String> = verdicts.iter().filter(|it| pick(it)).map(|it| format!("'{}'", it.rule)).collect();
        names.join(", ")
    };
    if verdicts.iter().any(|it| it.needs_store) {
        let names = named(&|it| it.needs_store);
        reason = format!("admitted by this process; the store was not queried for {names}");
    }
    let would =
        |it: &RuleVerdict| it.is_shadow && matches!(it.verdict, Some(VerdictName::Refused | VerdictName::Never));
    if verdicts.iter().any(would) {
        reason.push_str(&format!("; shadow mode: {} would refuse it", named(&would)));
    }
    reason
}

fn retry_text(wait: Option<Duration>) -> String {
    match wait {
        Some(wait) => format!("retry in {}", format_duration(wait)),
        None => "retry when other requests have finished".to_owned(),
    }
}

fn format_duration(span: Duration) -> String {
    HumanDuration::rounded_up(span).to_string()
}
