//! `/v1/versions`: earlier versions of the rules.

use serde::{Deserialize, Serialize};
use sluicegate_engine::Sluice;
use utoipa::ToSchema;

use super::access::Caller;
use super::fields::SingleLine;
use super::problem::{Problem, ProblemKind, quote_input};
use super::reply::{self, Reply};
use super::source;
use crate::reload::{EditError, KnownChange, RuleManager, RulesVersion};
use crate::rfc3339::Rfc3339Time;

/// Request to restore a version.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RestoreRequest {
    #[serde(default)]
    comment: SingleLine,
}

/// Stored versions.
#[derive(Serialize, ToSchema)]
#[schema(as = Versions)]
pub(super) struct VersionList {
    versions: Vec<VersionView>,
}

/// A version without its text.
#[derive(Serialize, ToSchema)]
#[schema(as = VersionSummary)]
struct VersionView {
    version: u64,
    at: Rfc3339Time,
    author: String,
    comment: String,
    bytes: u64,
    current: bool,
    /// The change, if the program has described it itself.
    change: Option<ChangeView>,
}

/// A change made by the program itself, and not described by an author.
#[derive(Serialize, ToSchema)]
#[schema(as = Change)]
struct ChangeView {
    kind: ChangeKind,
    /// Restored version.
    version: Option<u64>,
}

/// Kind of a change.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ChangeKind {
    Start,
    File,
    Seed,
    Rollback,
    Restore,
}

/// A version with its text.
#[derive(Serialize, ToSchema)]
#[schema(as = Version)]
pub(super) struct VersionTextView {
    #[serde(flatten)]
    version: VersionView,
    text: String,
}

impl From<RulesVersion> for VersionView {
    fn from(version: RulesVersion) -> Self {
        let change = version.known_change().map(ChangeView::from);
        let RulesVersion { number, at, author, comment, bytes, is_current } = version;
        Self { version: number, at: at.into(), author, comment, bytes, current: is_current, change }
    }
}

impl From<KnownChange> for ChangeView {
    fn from(change: KnownChange) -> Self {
        let (kind, version) = match change {
            KnownChange::Start => (ChangeKind::Start, None),
            KnownChange::File => (ChangeKind::File, None),
            KnownChange::Seed => (ChangeKind::Seed, None),
            KnownChange::Rollback => (ChangeKind::Rollback, None),
            KnownChange::Restore { version } => (ChangeKind::Restore, Some(version)),
        };
        Self { kind, version }
    }
}

/// Lists all stored versions, newest first.
pub(super) async fn list(manager: &RuleManager) -> Result<Reply, Problem> {
    let versions = manager.versions().await?;
    Ok(reply::ok(&VersionList { versions: versions.into_iter().map(VersionView::from).collect() }))
}

/// Returns one version with its text.
pub(super) async fn get(manager: &RuleManager, number: &str) -> Result<Reply, Problem> {
    let number = parse_version(number)?;
    let (version, text) = manager.version(number).await?.ok_or(EditError::NoSuchVersion { number })?;
    Ok(reply::ok(&VersionTextView { version: version.into(), text }))
}

/// Restores a version.
pub(super) async fn restore(
    sluice: &Sluice,
    manager: &RuleManager,
    number: &str,
    request: RestoreRequest,
    caller: Caller,
) -> Result<Reply, Problem> {
    let applied = manager.restore(parse_version(number)?, &caller.name, &request.comment.0).await?;
    Ok(source::applied_response(sluice, applied))
}

fn parse_version(text: &str) -> Result<u64, Problem> {
    let invalid =
        |_| Problem::new(ProblemKind::UnknownVersion, format!("invalid version number {}", quote_input(text)));
    text.parse().map_err(invalid)
}
