//! `/v1/keys`: state of one key of one rule.

use serde::Serialize;
use sluicegate_engine::Sluice;
use sluicegate_engine::sluice::{KeyError, LimitState};
use sluicegate_http_adapter::api::openapi;
use utoipa::ToSchema;

use super::problem::{Problem, ProblemKind};
use super::query::Query;
use super::reply::{self, Reply};
use super::rules;

/// State of a key.
#[derive(Serialize, ToSchema)]
#[schema(as = Key)]
pub(super) struct KeyView<'a> {
    rule: &'a str,
    key: String,
    /// True if part of its quota is used, or if it is banned.
    known: bool,
    #[schema(minimum = 0)]
    banned_for_s: Option<f64>,
    limits: Vec<KeyLimitView>,
}

/// State of a limit of a key.
#[derive(Serialize, ToSchema)]
#[schema(as = KeyLimit)]
struct KeyLimitView {
    limit: String,
    remaining: u64,
    #[schema(minimum = 0)]
    reset_s: f64,
    #[schema(minimum = 0)]
    retry_after_s: Option<f64>,
}

/// Confirmation of a reset.
#[derive(Serialize, ToSchema)]
#[schema(as = Reset)]
pub(super) struct ResetView {
    #[schema(schema_with = openapi::always_true)]
    reset: bool,
}

/// Returns the remaining quota of a key.
pub(super) fn get(sluice: &Sluice, query: &Query<'_>) -> Result<Reply, Problem> {
    let (rule, key) = rule_and_key(query)?;
    let state = sluice.peek(rule, &key).map_err(|error| key_problem(sluice, rule, &error))?;
    // A key with full quota is not stored or was never used; these cannot be distinguished.
    let known = state.banned.is_some() || state.limits.iter().any(|it| it.reset > std::time::Duration::ZERO);
    Ok(reply::ok(&KeyView {
        rule,
        key: state.key,
        known,
        banned_for_s: state.banned.map(|banned| banned.as_secs_f64()),
        limits: state.limits.iter().map(limit_view).collect(),
    }))
}

/// Resets a key.
pub(super) fn reset(sluice: &Sluice, query: &Query<'_>) -> Result<Reply, Problem> {
    let (rule, key) = rule_and_key(query)?;
    sluice.reset(rule, &key).map_err(|error| key_problem(sluice, rule, &error))?;
    Ok(reply::ok(&ResetView { reset: true }))
}

fn rule_and_key<'q>(query: &'q Query<'_>) -> Result<(&'q str, Vec<&'q str>), Problem> {
    Ok((query.required("rule")?, query.all("key").collect()))
}

fn limit_view(state: &LimitState) -> KeyLimitView {
    KeyLimitView {
        limit: state.limit.short_notation(),
        remaining: state.remaining,
        reset_s: state.reset.as_secs_f64(),
        retry_after_s: state.retry_after.map(|wait| wait.as_secs_f64()),
    }
}

/// Converts a key error to a problem.
pub(super) fn key_problem(sluice: &Sluice, rule: &str, error: &KeyError) -> Problem {
    let kind = match error {
        KeyError::NoRule => return rules::unknown(sluice, rule),
        KeyError::NoBan | KeyError::InStore => ProblemKind::Conflict,
        _ => ProblemKind::Unprocessable,
    };
    Problem::new(kind, error.to_string())
}
