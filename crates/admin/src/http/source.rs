//! `/v1/source`: read, check and replace the text of the rules.

use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use sluicegate_engine::Sluice;
use utoipa::ToSchema;

use super::access::Caller;
use super::fields::SingleLine;
use super::problem::{Problem, ProblemKind, RuleErrors};
use super::reply::{self, Reply};
use super::status::{OriginName, origin_of};
use crate::reload::{AppliedRules, EditError, ReadOnlyReason, RuleDiagnostic, RuleManager, RulesEdit, RulesSource};

/// Request to check a text.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckRulesRequest {
    text: String,
}

/// Request to apply a text.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PutRulesRequest {
    text: String,
    /// Version that the text is based on.
    based_on: u64,
    #[serde(default)]
    comment: SingleLine,
}

/// Text of the active rules.
#[derive(Serialize, ToSchema)]
#[schema(as = Source)]
pub(super) struct RulesSourceView {
    text: String,
    origin: OriginName,
    path: Option<String>,
    version: u64,
    editable: bool,
    /// Reason for which the text cannot be changed, as text.
    read_only_reason: Option<String>,
    /// The same reason, for programs.
    read_only_cause: Option<ReadOnlyCause>,
}

/// Reason for which the text cannot be changed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum ReadOnlyCause {
    BuiltIn,
    Missing,
    Permissions,
}

/// One diagnostic of a text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Diagnostic)]
pub(super) struct DiagnosticView {
    /// From 1; 0 if the diagnostic concerns the text as a whole.
    line: usize,
    column: usize,
    message: String,
    help: Option<String>,
}

/// Result of a check.
#[derive(Serialize, ToSchema)]
#[schema(as = CheckResult)]
pub(super) struct CheckResultView {
    ok: bool,
    errors: Vec<DiagnosticView>,
    warnings: Vec<DiagnosticView>,
}

/// Rules that have become active.
#[derive(Serialize, ToSchema)]
#[schema(as = AppliedRules)]
pub(super) struct AppliedRulesView {
    version: u64,
    generation: u64,
    warnings: Vec<DiagnosticView>,
    /// Changed sections that take effect after a restart.
    pending_restart: Vec<String>,
}

impl From<RuleDiagnostic> for DiagnosticView {
    fn from(diagnostic: RuleDiagnostic) -> Self {
        let RuleDiagnostic { line, column, message, help } = diagnostic;
        Self { line, column, message, help }
    }
}

fn diagnostic_views(diagnostics: Vec<RuleDiagnostic>) -> Vec<DiagnosticView> {
    diagnostics.into_iter().map(DiagnosticView::from).collect()
}

/// Returns the text in force.
pub(super) fn get(manager: &RuleManager) -> Reply {
    let RulesSource { text, origin, version, read_only_reason } = manager.source();
    let (origin, path) = origin_of(&origin);
    let read_only_cause = read_only_reason.as_ref().map(|reason| match reason {
        ReadOnlyReason::BuiltIn => ReadOnlyCause::BuiltIn,
        ReadOnlyReason::Missing { .. } => ReadOnlyCause::Missing,
        ReadOnlyReason::Permissions { .. } => ReadOnlyCause::Permissions,
    });
    let mut reply = reply::ok(&RulesSourceView {
        text,
        origin,
        path,
        version,
        editable: read_only_reason.is_none(),
        read_only_reason: read_only_reason.map(|reason| reason.to_string()),
        read_only_cause,
    });
    if let Ok(tag) = HeaderValue::try_from(format!("\"{version}\"")) {
        reply.headers_mut().insert(header::ETAG, tag);
    }
    reply
}

/// Checks a text without applying it.
pub(super) async fn check(manager: &RuleManager, request: CheckRulesRequest) -> Reply {
    let checked = manager.check(request.text).await;
    let (errors, warnings) = (diagnostic_views(checked.errors), diagnostic_views(checked.warnings));
    reply::ok(&CheckResultView { ok: errors.is_empty(), errors, warnings })
}

/// Applies a text.
pub(super) async fn put(
    sluice: &Sluice,
    manager: &RuleManager,
    request: PutRulesRequest,
    caller: Caller,
) -> Result<Reply, Problem> {
    let PutRulesRequest { text, based_on, comment } = request;
    let edit = RulesEdit { text, based_on: Some(based_on), author: caller.name, comment: comment.0 };
    Ok(applied_response(sluice, manager.put(edit).await?))
}

/// Reloads the text from its origin.
pub(super) async fn reload(sluice: &Sluice, manager: &RuleManager) -> Result<Reply, Problem> {
    Ok(applied_response(sluice, manager.reload().await?))
}

/// Response for applied rules.
pub(super) fn applied_response(sluice: &Sluice, applied: AppliedRules) -> Reply {
    let AppliedRules { version, warnings, pending_restart } = applied;
    let warnings = diagnostic_views(warnings);
    reply::json(
        StatusCode::OK,
        &AppliedRulesView { version, generation: sluice.generation(), warnings, pending_restart },
    )
}

/// Converts an edit error to a problem.
impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        let detail = error.to_string();
        match error {
            EditError::Invalid(errors) => Self::new(ProblemKind::InvalidRules, detail)
                .with_extensions(RuleErrors { errors: diagnostic_views(errors) }),
            EditError::StaleVersion { .. } => Self::new(ProblemKind::StaleVersion, detail),
            EditError::NoSuchVersion { .. } => Self::new(ProblemKind::UnknownVersion, detail),
            EditError::ReadOnly(_) => Self::new(ProblemKind::Forbidden, detail),
            EditError::Unavailable(_) => Self::new(ProblemKind::Unavailable, detail),
        }
    }
}
