//! `/v1/bans`: lists, adds and removes bans.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use sluicegate_engine::Sluice;
use sluicegate_engine::sluice::ActiveBan;
use utoipa::ToSchema;

use super::fields::NonZeroDuration;
use super::keys;
use super::problem::Problem;
use super::query::Query;
use super::reply::{self, Reply};

/// Request to ban a key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BanRequest {
    rule: String,
    /// One value for each part of the rule's key.
    key: Vec<String>,
    /// Duration, at most that of the rule: `10m`.
    r#for: Option<NonZeroDuration>,
}

/// Active bans.
#[derive(Serialize, ToSchema)]
#[schema(as = Bans)]
pub(super) struct BanList {
    bans: Vec<BanView>,
}

/// An active ban.
#[derive(Serialize, ToSchema)]
#[schema(as = Ban)]
pub(super) struct BanView {
    rule: String,
    key: String,
    #[schema(minimum = 0)]
    remaining_s: f64,
}

/// Result of a removal.
#[derive(Serialize, ToSchema)]
#[schema(as = Removed)]
pub(super) struct RemovedView {
    /// False if there was nothing to remove.
    pub(super) removed: bool,
}

impl From<ActiveBan> for BanView {
    fn from(banned: ActiveBan) -> Self {
        Self { rule: banned.rule, key: banned.key, remaining_s: banned.remaining.as_secs_f64() }
    }
}

/// Lists all bans in force.
pub(super) fn list(sluice: &Sluice) -> Reply {
    reply::ok(&BanList { bans: sluice.bans().into_iter().map(BanView::from).collect() })
}

/// Bans a key.
pub(super) fn ban(sluice: &Sluice, request: &BanRequest) -> Result<Reply, Problem> {
    let key: Vec<&str> = request.key.iter().map(String::as_str).collect();
    let duration = request.r#for.map(|duration| duration.0);
    let banned =
        sluice.ban(&request.rule, &key, duration).map_err(|error| keys::key_problem(sluice, &request.rule, &error))?;
    Ok(reply::json(StatusCode::CREATED, &BanView::from(banned)))
}

/// Removes a ban by its displayed key.
pub(super) fn remove(sluice: &Sluice, query: &Query<'_>) -> Result<Reply, Problem> {
    let removed = sluice.lift_ban(query.required("rule")?, query.required("key")?);
    Ok(reply::ok(&RemovedView { removed }))
}
