//! Route table of the admin API.

use http::Method;

use sluicegate_engine::spelling::nearest;

use super::problem::{Problem, ProblemKind, quote_input};
use crate::tokens::Access;

/// Identifies a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RouteId {
    Dashboard,
    Asset,
    Health,
    Ready,
    OpenApi,
    Docs,
    DocsFile,
    Metrics,
    Status,
    Rules,
    Rule,
    Limits,
    Adaptive,
    Top,
    Keys,
    Bans,
    Lists,
    List,
    Shadow,
    Store,
    Source,
    SourceCheck,
    Versions,
    Version,
    Restore,
    Reload,
    Live,
    Explain,
}

/// A path with its methods and their required access. `HEAD` is allowed with `GET`, and `OPTIONS` always.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) id: RouteId,
    /// Path template as in the OpenAPI document. A name in braces matches one path segment, `{file}` the rest
    /// of the path.
    pub(super) path: &'static str,
    pub(super) methods: &'static [(Method, RequiredAccess)],
}

/// Required access; `None` for public routes.
pub(super) type RequiredAccess = Option<Access>;

const PUBLIC: &[(Method, RequiredAccess)] = &[(Method::GET, None)];
const READ: &[(Method, RequiredAccess)] = &[(Method::GET, Some(Access::Read))];
/// POST that takes input and changes nothing.
const READ_POST: &[(Method, RequiredAccess)] = &[(Method::POST, Some(Access::Read))];
const WRITE_POST: &[(Method, RequiredAccess)] = &[(Method::POST, Some(Access::Write))];

/// All routes.
pub(super) const ROUTES: [Route; 28] = [
    route(RouteId::Dashboard, "/", PUBLIC),
    route(RouteId::Asset, "/assets/{file}", PUBLIC),
    route(RouteId::Health, "/healthz", PUBLIC),
    route(RouteId::Ready, "/readyz", PUBLIC),
    route(RouteId::OpenApi, "/openapi.json", PUBLIC),
    route(RouteId::Docs, "/docs", PUBLIC),
    route(RouteId::DocsFile, "/docs/{file}", PUBLIC),
    route(RouteId::Metrics, "/metrics", READ),
    route(RouteId::Status, "/v1/status", READ),
    route(RouteId::Rules, "/v1/rules", READ),
    route(RouteId::Rule, "/v1/rules/{name}", READ),
    route(RouteId::Limits, "/v1/limits", READ),
    route(RouteId::Adaptive, "/v1/adaptive", READ),
    route(RouteId::Top, "/v1/top", READ),
    route(RouteId::Keys, "/v1/keys", &[(Method::GET, Some(Access::Read)), (Method::DELETE, Some(Access::Write))]),
    route(
        RouteId::Bans,
        "/v1/bans",
        &[
            (Method::GET, Some(Access::Read)),
            (Method::POST, Some(Access::Write)),
            (Method::DELETE, Some(Access::Write)),
        ],
    ),
    route(RouteId::Lists, "/v1/lists", READ),
    route(
        RouteId::List,
        "/v1/lists/{list}",
        &[(Method::POST, Some(Access::Write)), (Method::DELETE, Some(Access::Write))],
    ),
    route(RouteId::Shadow, "/v1/shadow", READ),
    route(RouteId::Store, "/v1/store", READ),
    route(RouteId::Source, "/v1/source", &[(Method::GET, Some(Access::Read)), (Method::PUT, Some(Access::Write))]),
    route(RouteId::SourceCheck, "/v1/source/check", READ_POST),
    route(RouteId::Versions, "/v1/versions", READ),
    route(RouteId::Version, "/v1/versions/{version}", READ),
    route(RouteId::Restore, "/v1/versions/{version}/restore", WRITE_POST),
    route(RouteId::Reload, "/v1/reload", WRITE_POST),
    route(RouteId::Live, "/v1/live", READ),
    route(RouteId::Explain, "/v1/explain", READ_POST),
];

const fn route(page: RouteId, path: &'static str, methods: &'static [(Method, RequiredAccess)]) -> Route {
    Route { id: page, path, methods }
}

impl Route {
    /// Finds the route of a path, and the value of its parameter, still percent-encoded.
    pub(super) fn of(path: &str) -> Result<(&'static Self, &str), Problem> {
        ROUTES.iter().find_map(|route| Some((route, match_path(route.path, path)?))).ok_or_else(|| unknown(path))
    }

    /// Required access of a method. A caller with read access may request the allowed methods.
    pub(super) fn required_access(&self, method: &Method) -> RequiredAccess {
        let entry = self.methods.iter().find(|(allowed, _)| allowed == as_get(method));
        let is_public = self.methods.iter().all(|(_, need)| need.is_none());
        entry.map_or((!is_public).then_some(Access::Read), |(_, need)| *need)
    }

    /// Rejects a method that is not allowed.
    pub(super) fn check_method(&self, method: &Method) -> Result<(), Problem> {
        let is_allowed = method == Method::OPTIONS || self.methods.iter().any(|(allowed, _)| allowed == as_get(method));
        if is_allowed { Ok(()) } else { Err(Problem::method(ProblemKind::Method, method, self.allowed())) }
    }

    /// Allowed methods as in the `Allow` header.
    pub(super) fn allowed(&self) -> String {
        let mut allowed = String::new();
        for (method, _) in self.methods {
            allowed.push_str(method.as_str());
            allowed.push_str(", ");
            if *method == Method::GET {
                allowed.push_str("HEAD, ");
            }
        }
        allowed + "OPTIONS"
    }
}

/// Maps `HEAD` to `GET`.
pub(super) fn as_get(method: &Method) -> &Method {
    if *method == Method::HEAD { &Method::GET } else { method }
}

/// Returns the value of the parameter if the path matches the template; empty if the template has none.
fn match_path<'p>(template: &str, path: &'p str) -> Option<&'p str> {
    let Some((front, rest)) = template.split_once('{') else { return (template == path).then_some("") };
    let (name, back) = rest.split_once('}')?;
    let value = path.strip_prefix(front)?.strip_suffix(back)?;
    let is_match = name == "file" || !(value.is_empty() || value.contains('/'));
    is_match.then_some(value)
}

/// Problem for an unknown path, with a suggestion.
pub(super) fn unknown(path: &str) -> Problem {
    let remedy = match nearest(path, ROUTES.iter().map(|route| route.path)) {
        Some(near) => format!("did you mean {near}?"),
        None => "/docs/ lists all paths".to_owned(),
    };
    Problem::new(ProblemKind::UnknownPath, format!("unknown path {}: {remedy}", quote_input(path)))
}
