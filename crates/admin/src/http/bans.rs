//! Who is banned.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sluicegate_engine::Sluice;
use sluicegate_engine::sluice::Banned;

use super::fields::Lasting;
use super::keys;
use super::problem::Problem;
use super::query::Query;
use super::reply::{self, Reply};

/// A ban that is to be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToBan {
    rule: String,
    key: Vec<String>,
    r#for: Option<Lasting>,
}

#[derive(Serialize)]
struct All {
    bans: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    rule: String,
    key: String,
    remaining_s: f64,
}

impl From<Banned> for Shown {
    fn from(banned: Banned) -> Self {
        Self { rule: banned.rule, key: banned.key, remaining_s: banned.remaining.as_secs_f64() }
    }
}

/// All bans in force.
pub(super) fn all(sluice: &Sluice) -> Reply {
    reply::ok(&All { bans: sluice.bans().into_iter().map(Shown::from).collect() })
}

/// Bans a key.
pub(super) fn ban(sluice: &Sluice, asked: &ToBan) -> Result<Reply, Problem> {
    let key: Vec<&str> = asked.key.iter().map(String::as_str).collect();
    let lasting = asked.r#for.map(|lasting| lasting.0);
    let banned = sluice.ban(&asked.rule, &key, lasting).map_err(|error| keys::wrong(sluice, &asked.rule, &error))?;
    Ok(reply::json(StatusCode::CREATED, &Shown::from(banned)))
}

/// Lifts a ban, by its key as it is shown.
pub(super) fn lift(sluice: &Sluice, query: &Query<'_>) -> Result<Reply, Problem> {
    let lifted = sluice.lift_ban(query.must("rule")?, query.must("key")?);
    Ok(reply::ok(&json!({ "lifted": lifted })))
}
