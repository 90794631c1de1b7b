//! `GET /v1/status`: summary of the process.

use serde::Serialize;
use sluicegate_engine::Sluice;
use utoipa::ToSchema;

use super::store;
use crate::reload::{ReloadError, ReloadStatus, RuleManager, RulesOrigin};
use crate::rfc3339::Rfc3339Time;
use crate::tokens::Access;

/// Summary of the process.
#[derive(Serialize, ToSchema)]
#[schema(as = Status)]
pub(super) struct StatusView {
    version: &'static str,
    started_at: Rfc3339Time,
    #[schema(minimum = 0)]
    uptime_s: f64,
    /// Access level of the caller.
    access: Access,
    rules: RulesStatusView,
    bans: usize,
    store: Option<store::StoreView>,
}

/// State of the active rules.
#[derive(Serialize, ToSchema)]
#[schema(as = RulesStatus)]
struct RulesStatusView {
    count: usize,
    /// Generation of the active rule set; it changes with every update of rules or lists.
    generation: u64,
    origin: OriginName,
    path: Option<String>,
    version: u64,
    loaded_at: Rfc3339Time,
    reloads: u64,
    failed_reloads: u64,
    last_error: Option<ErrorView>,
    pending_restart: Vec<String>,
}

/// Error of the last reload.
#[derive(Serialize, ToSchema)]
#[schema(as = ReloadError)]
struct ErrorView {
    at: Rfc3339Time,
    message: String,
}

/// Origin of the active rules.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = Origin)]
pub(super) enum OriginName {
    File,
    Store,
    BuiltIn,
}

impl From<ReloadError> for ErrorView {
    fn from(error: ReloadError) -> Self {
        Self { at: error.at.into(), message: error.message }
    }
}

/// Start time and uptime of the process.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProcessUptime {
    pub(super) since: Rfc3339Time,
    pub(super) seconds: f64,
}

impl StatusView {
    pub(super) fn new(
        sluice: &Sluice,
        manager: &RuleManager,
        uptime: ProcessUptime,
        access: Access,
        store: Option<store::StoreView>,
    ) -> Self {
        let ReloadStatus { origin, version, loaded_at, reloads, failed_reloads, last_error, pending_restart } =
            manager.status();
        let (origin, path) = origin_of(&origin);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            started_at: uptime.since,
            uptime_s: uptime.seconds,
            access,
            rules: RulesStatusView {
                count: sluice.counts().len(),
                generation: sluice.generation(),
                origin,
                path,
                version,
                loaded_at: loaded_at.into(),
                reloads,
                failed_reloads,
                last_error: last_error.map(ErrorView::from),
                pending_restart,
            },
            bans: sluice.bans().len(),
            store,
        }
    }
}

/// Name of an origin, and its file.
pub(super) fn origin_of(origin: &RulesOrigin) -> (OriginName, Option<String>) {
    match origin {
        RulesOrigin::BuiltIn => (OriginName::BuiltIn, None),
        RulesOrigin::File(path) => (OriginName::File, Some(path.display().to_string())),
        RulesOrigin::Store(path) => (OriginName::Store, Some(path.display().to_string())),
    }
}
