//! OpenAPI document: one operation per route and method, with the schemas of its types.
//!
//! Paths, methods and required access come from the [route table](super::route), status codes from the
//! [kinds of problems](ProblemKind).

use http::{Method, StatusCode};
use serde_json::{Value, json};
use sluicegate_http_adapter::api::ProblemKind as _;
use sluicegate_http_adapter::api::openapi::{self, OpenApi, Operation};

use super::event_stream::Tick;
use super::problem::{ProblemKind, RuleErrors};
use super::route::{ROUTES, RequiredAccess, RouteId};
use super::{adaptive, bans, explain, keys, limits, lists, rules, source, status, store, top, versions};
use crate::tokens::Access;

const DESCRIPTION: &str = "\
Admin API: decisions, limits, keys, bans, lists, rules and their versions. Durations in responses are seconds (`_s`); \
in requests they are strings as in the rule file (`10m`). Counters are totals since the start of the process or, for a \
rule, since a rule of this name exists. An invalid call changes nothing and gets a problem document (RFC 9457).

With `admin.token_file` every call except the pages needs a token from that file; a `read` token changes nothing. \
Without it only loopback clients can read, and changes are not possible.";

/// Builds the document.
pub(super) fn document() -> String {
    let mut api = OpenApi::default();
    api.problem_schema::<RuleErrors>();
    // The data of an event stream, which has no schema of its own.
    api.schema::<Tick>();
    for route in &ROUTES {
        for (method, access) in route.methods {
            let (operation, mut problems) = operation(&mut api, route.id, method, *access);
            if access.is_some() {
                problems.extend([ProblemKind::Invalid, ProblemKind::Unauthorized, ProblemKind::Forbidden]);
            }
            if operation.has_body() {
                problems.extend([ProblemKind::TooLarge, ProblemKind::ContentType]);
            }
            problems.sort_by_key(|kind| kind.describe().0);
            let mut operation = problems.into_iter().fold(operation, |operation, kind| {
                let (name, description) = problem_response(kind);
                let response = api.add_response(name, openapi::problem_response(description));
                operation.response(kind.describe().0.as_str(), response)
            });
            if access.is_none() {
                operation = operation.with("security", json!([{}]));
            }
            api.add_operation(route.path, method, operation);
        }
    }
    let head = json!({
        "info": {
            "title": "Sluicegate admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": DESCRIPTION,
        },
        "security": [{}, { "token": [] }],
        "tags": [{ "name": "Reading" }, { "name": "Writing" }, { "name": "Pages" }],
    });
    let description = "A token from the file in `admin.token_file`.";
    api.finish(head, &json!({ "token": { "type": "http", "scheme": "bearer", "description": description } }))
}

/// An operation and its problems, except those that follow from its access and its body.
fn operation(api: &mut OpenApi, id: RouteId, method: &Method, access: RequiredAccess) -> (Operation, Vec<ProblemKind>) {
    let tag = match access {
        None => "Pages",
        Some(Access::Read) => "Reading",
        Some(Access::Write) => "Writing",
    };
    let new = |id: &str, summary: &str| Operation::new(id, tag, summary);
    let (ok, created) = (StatusCode::OK, StatusCode::CREATED);
    let string = || json!({ "type": "string" });
    let text = |description: &str, kind: &str| openapi::response(description, kind, json!({ "type": "string" }));
    match (id, method.as_str()) {
        (RouteId::Dashboard, _) => {
            let operation = new("dashboard", "The dashboard").response("200", text("The dashboard.", "text/html"));
            (operation.response("304", empty("Not modified.")), vec![])
        }
        (RouteId::Asset, _) => {
            let operation = new("asset", "Asset of the dashboard").response("200", empty("The file."));
            let operation = operation.response("304", empty("Not modified."));
            (operation.parameter("path", "file", true, "Path of the file.", string()), vec![ProblemKind::UnknownPath])
        }
        (RouteId::Health, _) => {
            let response = text("The process is alive.", "text/plain");
            (new("health", "Liveness").response("200", response), vec![ProblemKind::Invalid])
        }
        (RouteId::Ready, _) => {
            let operation = new("ready", "Readiness: the process has rules and is not shutting down");
            let operation = operation.response("200", text("The process is ready.", "text/plain"));
            (operation, vec![ProblemKind::Invalid, ProblemKind::Unavailable])
        }
        (RouteId::OpenApi, _) => {
            let operation = new("description", "This document");
            (operation.json(ok, "The document.", json!({ "type": "object" })), vec![ProblemKind::Invalid])
        }
        (RouteId::Docs, _) => {
            let response = empty("The documentation is at `/docs/`.");
            (new("toDocs", "Redirect to the API documentation").response("308", response), vec![])
        }
        (RouteId::DocsFile, _) => {
            let operation = new("docs", "File of the API documentation").response("200", empty("The file."));
            (operation.parameter("path", "file", true, "Path of the file.", string()), vec![ProblemKind::UnknownPath])
        }
        (RouteId::Metrics, _) => {
            let description = "OpenMetrics if the client accepts it, otherwise the Prometheus text format.";
            let mut response = text(description, "text/plain");
            response["content"]["application/openmetrics-text"] = json!({ "schema": string() });
            (new("metrics", "Metrics").response("200", response), vec![])
        }
        (RouteId::Status, _) => {
            let operation = new("status", "Summary of the process");
            (operation.json(ok, "The status.", api.schema::<status::StatusView>()), vec![])
        }
        (RouteId::Rules, _) => {
            let operation = new("rules", "Active rules with their decision counters");
            (operation.json(ok, "The rules.", api.schema::<rules::RuleList>()), vec![])
        }
        (RouteId::Rule, _) => {
            let operation = new("rule", "One rule").parameter("path", "name", true, "Name of the rule.", string());
            (operation.json(ok, "The rule.", api.schema::<rules::RuleView>()), vec![ProblemKind::UnknownRule])
        }
        (RouteId::Limits, _) => {
            let description = "The limits. While the store is unavailable, the share of this process.";
            let schema = api.schema::<limits::EffectiveLimitList>();
            (new("limits", "Effective limits").json(ok, description, schema), vec![])
        }
        (RouteId::Adaptive, _) => {
            let description = "State, current limit, readings and reason of each adaptive rule.";
            let schema = api.schema::<adaptive::AdaptiveRuleList>();
            (new("adaptive", "Adaptive rules and the signals they use").json(ok, description, schema), vec![])
        }
        (RouteId::Top, _) => {
            let (default, max) = top::DEFAULT_AND_MAX_KEYS;
            let limit = json!({ "type": "integer", "minimum": 1, "maximum": max });
            let description = format!("Maximum number of keys per rule; default {default}.");
            let operation = new("top", "Keys with the most requests and the most refusals")
                .parameter("query", "rule", false, "Only this rule.", string())
                .parameter("query", "limit", false, &description, limit)
                .json(ok, "The keys, by descending count.", api.schema::<top::TopKeysList>());
            (operation, vec![ProblemKind::UnknownRule])
        }
        (RouteId::Keys, "DELETE") => {
            let operation = new("resetKey", "Reset the quota of a key. Its ban stays.");
            let operation = operation.json(ok, "The key has been reset.", api.schema::<keys::ResetView>());
            (with_key(operation), KEY_PROBLEMS.to_vec())
        }
        (RouteId::Keys, _) => {
            let operation = new("key", "Remaining quota of one key");
            let operation = operation.json(ok, "The state of the key.", api.schema::<keys::KeyView<'_>>());
            (with_key(operation), KEY_PROBLEMS.to_vec())
        }
        (RouteId::Bans, "POST") => {
            let operation = new("ban", "Ban a key").body(true, content(api.schema::<bans::BanRequest>()));
            (operation.json(created, "The ban.", api.schema::<bans::BanView>()), KEY_PROBLEMS.to_vec())
        }
        (RouteId::Bans, "DELETE") => {
            let operation = new("liftBan", "Remove a ban")
                .parameter("query", "rule", true, "Name of the rule.", string())
                .parameter("query", "key", true, "The key as listed by `GET /v1/bans`.", string());
            let description = "`removed` is false if there was no such ban.";
            (operation.json(ok, description, api.schema::<bans::RemovedView>()), vec![])
        }
        (RouteId::Bans, _) => (new("bans", "Active bans").json(ok, "The bans.", api.schema::<bans::BanList>()), vec![]),
        (RouteId::Lists, _) => {
            let operation = new("lists", "Allow list and deny list");
            (operation.json(ok, "Both lists.", api.schema::<lists::ListsView>()), vec![])
        }
        (RouteId::List, "POST") => {
            let summary = "Add a list entry: for the cluster if there is a store, otherwise for this process";
            let operation = new("addToList", summary)
                .parameter("path", "list", true, "`allow` or `deny`.", api.schema::<lists::ListName>())
                .body(true, content(api.schema::<lists::AddEntryRequest>()))
                .json(created, "The entry.", api.schema::<lists::ListEntryView>());
            (operation, LIST_PROBLEMS.to_vec())
        }
        (RouteId::List, _) => {
            let operation = new("removeFromList", "Remove a list entry that was added at runtime")
                .parameter("path", "list", true, "`allow` or `deny`.", api.schema::<lists::ListName>())
                .parameter("query", "condition", true, "The condition as listed by `GET /v1/lists`.", string());
            let description = "`removed` is false if there was no such entry.";
            (operation.json(ok, description, api.schema::<bans::RemovedView>()), LIST_PROBLEMS.to_vec())
        }
        (RouteId::Shadow, _) => {
            let operation = new("shadow", "Refusals that shadow rules would have made");
            (operation.json(ok, "The rules in shadow mode.", api.schema::<rules::ShadowRuleList>()), vec![])
        }
        (RouteId::Store, _) => {
            let schema = json!({ "oneOf": [api.schema::<store::StoreView>(), { "type": "null" }] });
            (new("store", "State of the store").json(ok, "The store; null if none is configured.", schema), vec![])
        }
        (RouteId::Source, "PUT") => {
            let operation = new("putSource", "Apply a text and write it to its origin")
                .body(true, content(api.schema::<source::PutRulesRequest>()))
                .json(ok, "The text is active.", api.schema::<source::AppliedRulesView>());
            (operation, vec![ProblemKind::StaleVersion, ProblemKind::InvalidRules, ProblemKind::Unavailable])
        }
        (RouteId::Source, _) => {
            let schema = api.schema::<source::RulesSourceView>();
            (new("source", "Text of the active rules").json(ok, "The text. The ETag is its version.", schema), vec![])
        }
        (RouteId::SourceCheck, _) => {
            let operation = new("checkSource", "Validate a text")
                .body(true, content(api.schema::<source::CheckRulesRequest>()))
                .json(ok, "Errors and warnings.", api.schema::<source::CheckResultView>());
            (operation, vec![])
        }
        (RouteId::Versions, _) => {
            let operation = new("versions", "Versions of the rules, newest first");
            let schema = api.schema::<versions::VersionList>();
            (operation.json(ok, "The versions.", schema), vec![ProblemKind::Unavailable])
        }
        (RouteId::Version, _) => {
            let operation = new("version", "One version with its text")
                .parameter("path", "version", true, "Version number.", string())
                .json(ok, "The version.", api.schema::<versions::VersionTextView>());
            (operation, vec![ProblemKind::UnknownVersion, ProblemKind::Unavailable])
        }
        (RouteId::Restore, _) => {
            let operation = new("restore", "Apply an earlier version as a new version")
                .parameter("path", "version", true, "Version number.", string())
                .body(false, content(api.schema::<versions::RestoreRequest>()))
                .json(ok, "The version is active.", api.schema::<source::AppliedRulesView>());
            let problems = [ProblemKind::UnknownVersion, ProblemKind::StaleVersion, ProblemKind::InvalidRules];
            (operation, problems.into_iter().chain([ProblemKind::Unavailable]).collect())
        }
        (RouteId::Reload, _) => {
            let operation = new("reload", "Reload the text from its origin");
            let operation = operation.json(ok, "The text is active.", api.schema::<source::AppliedRulesView>());
            (operation, vec![ProblemKind::TooLarge, ProblemKind::InvalidRules, ProblemKind::Unavailable])
        }
        (RouteId::Live, _) => {
            let response = text("Events named `tick`, each with a Tick as its data.", "text/event-stream");
            let operation = new("live", "Server-sent events, one per second").response("200", response);
            (operation, vec![ProblemKind::Unavailable])
        }
        (RouteId::Explain, _) => {
            let operation = new("explain", "Explain the decision for a request")
                .body(true, content(api.schema::<explain::ExplainRequest>()))
                .json(ok, "The explanation. No quota is consumed.", api.schema::<explain::ExplainResponse>());
            (operation, vec![ProblemKind::Unprocessable])
        }
    }
}

const KEY_PROBLEMS: [ProblemKind; 3] = [ProblemKind::UnknownRule, ProblemKind::Conflict, ProblemKind::Unprocessable];
const LIST_PROBLEMS: [ProblemKind; 4] =
    [ProblemKind::UnknownPath, ProblemKind::Conflict, ProblemKind::Unprocessable, ProblemKind::Unavailable];

/// Adds the parameters that select a key of a rule.
fn with_key(operation: Operation) -> Operation {
    let values = json!({ "type": "array", "items": { "type": "string" } });
    operation.parameter("query", "rule", true, "Name of the rule.", json!({ "type": "string" })).parameter(
        "query",
        "key",
        false,
        "One value for each part of the rule's key.",
        values,
    )
}

fn content(schema: Value) -> Value {
    json!({ "schema": schema })
}

fn empty(description: &str) -> Value {
    json!({ "description": description })
}

/// Name and description of the response to a problem.
const fn problem_response(kind: ProblemKind) -> (&'static str, &'static str) {
    match kind {
        ProblemKind::NotJson | ProblemKind::Invalid | ProblemKind::Unreadable => {
            ("BadRequest", "The body is not JSON or cannot be read, or a field or parameter is invalid.")
        }
        ProblemKind::Unauthorized => ("Unauthorized", "The token is missing or unknown."),
        ProblemKind::Forbidden => (
            "Forbidden",
            "The token is read-only; or, without tokens, the client is remote or the call would change something.",
        ),
        ProblemKind::UnknownPath => ("UnknownPath", "Unknown path."),
        ProblemKind::UnknownRule => ("UnknownRule", "Unknown rule; the detail suggests the nearest name."),
        ProblemKind::UnknownVersion => ("UnknownVersion", "Unknown version."),
        ProblemKind::Method => ("Method", "Method not allowed."),
        ProblemKind::StaleVersion => ("StaleVersion", "The active version is not the one the edit is based on."),
        ProblemKind::Conflict => ("Conflict", "The call conflicts with the current state."),
        ProblemKind::TooLarge => ("TooLarge", "The body is too large."),
        ProblemKind::ContentType => ("ContentType", "Unsupported content type."),
        ProblemKind::Unprocessable => ("Unprocessable", "A value is invalid."),
        ProblemKind::InvalidRules => ("InvalidRules", "The rules have errors. Nothing has changed."),
        ProblemKind::Full | ProblemKind::Unavailable => ("Unavailable", "Temporarily unavailable."),
    }
}
