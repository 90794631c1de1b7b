//! Rate limit response headers: report the remaining quota to clients.
//!
//! | style | headers |
//! |---|---|
//! | [`HeaderStyle::Ietf`] | `RateLimit-Policy: "per-ip";q=300;w=60` and `RateLimit: "per-ip";r=50;t=30`, an item per rule |
//! | [`HeaderStyle::Legacy`] | `RateLimit-Limit`, `RateLimit-Remaining`, `RateLimit-Reset`, of the tightest rule |
//! | [`HeaderStyle::X`] | the same with the prefix `X-` |
//!
//! Times are whole seconds from now, rounded up. Shadow rules are not shown.
//!
//! Structured fields are written by own code, from parts rendered once per rule: every response has them. Those of
//! other servers are parsed with `sfv`.

mod line;
mod remaining;
mod style;
mod write;

pub use remaining::AdHocQuota;
pub use style::HeaderStyle;

use http::{HeaderMap, HeaderName, HeaderValue};
use sluicegate_engine::sluice::RuleDecision;

use crate::decision_view::DecisionView;
use crate::header_value::{seconds, value};
use crate::prerendered::{QuotaPolicy, RenderedRule, RenderedRules};
use line::{HeaderLine, PushBytes};
pub(crate) use write::write_lines;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Limit, remaining, reset.
static LEGACY_NAMES: [HeaderName; 3] = [
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
];
static X_NAMES: [HeaderName; 3] = [
    HeaderName::from_static("x-ratelimit-limit"),
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
];

/// Rate limit fields of one response, captured at decision time. Much smaller than the outcome they are
/// built from.
#[derive(Debug, Default)]
pub struct RateLimitFields(FieldValues);

#[derive(Debug, Default)]
enum FieldValues {
    #[default]
    Nothing,
    /// `RateLimit-Policy` values, usually one, and the `RateLimit` value.
    Ietf { policy: HeaderValue, more_policies: Vec<HeaderValue>, remaining: HeaderValue },
    /// Header names and their numbers. Without a reset time, there is one name less than numbers.
    Triple(&'static [HeaderName], [u64; 3]),
}

impl RateLimitFields {
    /// Renders a decision in the given style.
    pub(crate) fn of(style: HeaderStyle, rules: &RenderedRules, view: &impl DecisionView) -> Self {
        let kind = match style {
            HeaderStyle::Ietf => ietf(rules, view),
            HeaderStyle::Legacy => tightest(rules, view).map(|numbers| FieldValues::Triple(&LEGACY_NAMES, numbers)),
            HeaderStyle::X => tightest(rules, view).map(|numbers| FieldValues::Triple(&X_NAMES, numbers)),
            HeaderStyle::None => None,
        };
        Self(kind.unwrap_or_default())
    }

    /// True if one of the fields would replace a header that `is_present`; other styles append.
    pub fn would_replace(&self, is_present: impl Fn(&HeaderName) -> bool) -> bool {
        matches!(&self.0, FieldValues::Triple(names, _) if names.iter().any(is_present))
    }

    /// Appends the fields to a raw head, as HTTP/1 header lines with CRLF.
    pub fn write_lines(&self, output: &mut Vec<u8>) {
        match &self.0 {
            FieldValues::Nothing => {}
            FieldValues::Ietf { policy, more_policies, remaining: left } => {
                for policy in [policy].into_iter().chain(more_policies) {
                    write::write_line(output, &POLICY, |output| PushBytes::push(output, policy.as_bytes()));
                }
                write::write_line(output, &RATE_LIMIT, |output| PushBytes::push(output, left.as_bytes()));
            }
            FieldValues::Triple(names, numbers) => {
                for (name, number) in names.iter().zip(numbers) {
                    write::write_line(output, name, |output| output.push_number(*number));
                }
            }
        }
    }

    /// Adds the fields to a header map.
    pub fn write(self, headers: &mut HeaderMap) {
        match self.0 {
            FieldValues::Nothing => {}
            FieldValues::Ietf { policy, more_policies, remaining: left } => {
                headers.append(POLICY, policy);
                for policy in more_policies {
                    headers.append(POLICY, policy);
                }
                headers.append(RATE_LIMIT, left);
            }
            FieldValues::Triple(names, numbers) => {
                for (name, number) in names.iter().zip(numbers) {
                    headers.insert(name, value(number));
                }
            }
        }
    }
}

/// Yields each non-shadow rule decision with its prerendered rule and the policy of the deciding limit.
fn rule_decisions<'a>(
    rules: &'a RenderedRules,
    view: &'a impl DecisionView,
) -> impl Iterator<Item = (RuleDecision, &'a RenderedRule, &'a QuotaPolicy)> {
    view.rule_decisions().filter(|checked| !checked.shadow).filter_map(|checked| {
        let rendered = rules.rule(checked.rule)?;
        Some((checked, rendered, rendered.policies.get(checked.decision.limit)?))
    })
}

/// Seconds until the full quota is available, and at least until the request would be admitted.
fn reset(rule_decision: &RuleDecision) -> u64 {
    let wait = if rule_decision.decision.is_admitted() { None } else { rule_decision.decision.wait() };
    seconds(rule_decision.decision.reset().max(wait.unwrap_or_default()))
}

fn ietf(rules: &RenderedRules, view: &impl DecisionView) -> Option<FieldValues> {
    let mut policies = rule_decisions(rules, view).map(|(_, rendered, _)| rendered.policy.clone());
    let policy = policies.next()?;
    let more_policies = policies.collect();
    let mut remaining = HeaderLine::new();
    push_remaining(&mut remaining, rules, view);
    Some(FieldValues::Ietf { policy, more_policies, remaining: HeaderValue::from_bytes(remaining.as_bytes()).ok()? })
}

/// Writes the `RateLimit` value: the remaining quota of each rule.
fn push_remaining(line: &mut impl PushBytes, rules: &RenderedRules, view: &impl DecisionView) {
    for (nth, (checked, _, policy)) in rule_decisions(rules, view).enumerate() {
        if nth > 0 {
            line.push(b", ");
        }
        line.push(&policy.remaining_prefix);
        line.push_number(policy.cap_to_quota(checked.decision.status.remaining));
        if policy.has_window {
            line.push(b";t=");
            line.push_number(reset(&checked));
        }
    }
}

/// Numbers of a single rule: the one that refused, else the one with the least remaining.
fn tightest(rules: &RenderedRules, view: &impl DecisionView) -> Option<[u64; 3]> {
    let remaining =
        |checked: &RuleDecision, policy: &QuotaPolicy| policy.cap_to_quota(checked.decision.status.remaining);
    let (checked, _, policy) = rule_decisions(rules, view)
        .min_by_key(|(checked, _, policy)| (checked.decision.is_admitted(), remaining(checked, policy)))?;
    Some([policy.quota, remaining(&checked, policy), reset(&checked)])
}
