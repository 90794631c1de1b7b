//! One key of one rule, by its values.

use serde::Serialize;
use serde_json::json;
use sluicegate_engine::Sluice;
use sluicegate_engine::sluice::{KeyError, LimitState};

use super::problem::{Kind, Problem};
use super::query::Query;
use super::reply::{self, Reply};
use super::rules;

#[derive(Serialize)]
struct Shown<'a> {
    rule: &'a str,
    key: String,
    known: bool,
    banned_for_s: Option<f64>,
    limits: Vec<Limit>,
}

#[derive(Serialize)]
struct Limit {
    limit: String,
    remaining: u64,
    reset_s: f64,
    retry_after_s: Option<f64>,
}

/// What is left to it.
pub(super) fn get(sluice: &Sluice, query: &Query<'_>) -> Result<Reply, Problem> {
    let (rule, key) = asked(query)?;
    let state = sluice.peek(rule, &key).map_err(|error| wrong(sluice, rule, &error))?;
    // A key that everything is left to is forgotten, or was never seen: nobody can tell the difference.
    let known = state.banned.is_some() || state.limits.iter().any(|it| it.reset > std::time::Duration::ZERO);
    Ok(reply::ok(&Shown {
        rule,
        key: state.key,
        known,
        banned_for_s: state.banned.map(|banned| banned.as_secs_f64()),
        limits: state.limits.iter().map(limit).collect(),
    }))
}

/// Forgets what it has used.
pub(super) fn reset(sluice: &Sluice, query: &Query<'_>) -> Result<Reply, Problem> {
    let (rule, key) = asked(query)?;
    sluice.reset(rule, &key).map_err(|error| wrong(sluice, rule, &error))?;
    Ok(reply::ok(&json!({ "reset": true })))
}

fn asked<'q>(query: &'q Query<'_>) -> Result<(&'q str, Vec<&'q str>), Problem> {
    Ok((query.must("rule")?, query.all("key").collect()))
}

fn limit(state: &LimitState) -> Limit {
    Limit {
        limit: rules::limit(&state.limit),
        remaining: state.remaining,
        reset_s: state.reset.as_secs_f64(),
        retry_after_s: state.retry_after.map(|wait| wait.as_secs_f64()),
    }
}

/// Why nothing can be said or done about a key, as a problem.
pub(super) fn wrong(sluice: &Sluice, rule: &str, error: &KeyError) -> Problem {
    let kind = match error {
        KeyError::NoRule => return rules::unknown(sluice, rule),
        KeyError::NoBan | KeyError::Elsewhere => Kind::Conflict,
        _ => Kind::Unprocessable,
    };
    Problem::new(kind, error.to_string())
}
