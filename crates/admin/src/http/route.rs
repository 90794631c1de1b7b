//! Which path is what: the one table of all routes.

use http::Method;

use sluicegate_http::call::nearest;

use super::problem::{Kind, Problem, shown};
use crate::tokens::Access;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Page {
    Dashboard,
    Asset,
    Health,
    Ready,
    Description,
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

/// A path with the methods that fit and what they need. `HEAD` fits wherever `GET` does, and `OPTIONS` everywhere.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) page: Page,
    /// As the description has it. A name in braces stands for one part of the path, `{file}` for all the rest.
    pub(super) path: &'static str,
    pub(super) methods: &'static [(Method, Need)],
}

/// What somebody must be allowed; `None`: anybody may.
pub(super) type Need = Option<Access>;

const OPEN: &[(Method, Need)] = &[(Method::GET, None)];
const READ: &[(Method, Need)] = &[(Method::GET, Some(Access::Read))];
/// Takes something to look at, and changes nothing.
const LOOK: &[(Method, Need)] = &[(Method::POST, Some(Access::Read))];
const DO: &[(Method, Need)] = &[(Method::POST, Some(Access::Write))];

/// All of them.
pub(super) const ROUTES: [Route; 28] = [
    route(Page::Dashboard, "/", OPEN),
    route(Page::Asset, "/assets/{file}", OPEN),
    route(Page::Health, "/healthz", OPEN),
    route(Page::Ready, "/readyz", OPEN),
    route(Page::Description, "/openapi.json", OPEN),
    route(Page::Docs, "/docs", OPEN),
    route(Page::DocsFile, "/docs/{file}", OPEN),
    route(Page::Metrics, "/metrics", READ),
    route(Page::Status, "/v1/status", READ),
    route(Page::Rules, "/v1/rules", READ),
    route(Page::Rule, "/v1/rules/{name}", READ),
    route(Page::Limits, "/v1/limits", READ),
    route(Page::Adaptive, "/v1/adaptive", READ),
    route(Page::Top, "/v1/top", READ),
    route(Page::Keys, "/v1/keys", &[(Method::GET, Some(Access::Read)), (Method::DELETE, Some(Access::Write))]),
    route(
        Page::Bans,
        "/v1/bans",
        &[
            (Method::GET, Some(Access::Read)),
            (Method::POST, Some(Access::Write)),
            (Method::DELETE, Some(Access::Write)),
        ],
    ),
    route(Page::Lists, "/v1/lists", READ),
    route(
        Page::List,
        "/v1/lists/{list}",
        &[(Method::POST, Some(Access::Write)), (Method::DELETE, Some(Access::Write))],
    ),
    route(Page::Shadow, "/v1/shadow", READ),
    route(Page::Store, "/v1/store", READ),
    route(Page::Source, "/v1/source", &[(Method::GET, Some(Access::Read)), (Method::PUT, Some(Access::Write))]),
    route(Page::SourceCheck, "/v1/source/check", LOOK),
    route(Page::Versions, "/v1/versions", READ),
    route(Page::Version, "/v1/versions/{version}", READ),
    route(Page::Restore, "/v1/versions/{version}/restore", DO),
    route(Page::Reload, "/v1/reload", DO),
    route(Page::Live, "/v1/live", READ),
    route(Page::Explain, "/v1/explain", LOOK),
];

const fn route(page: Page, path: &'static str, methods: &'static [(Method, Need)]) -> Route {
    Route { page, path, methods }
}

impl Route {
    /// The route of a path, and what stands for the name in it, still encoded.
    pub(super) fn of(path: &str) -> Result<(&'static Self, &str), Problem> {
        ROUTES.iter().find_map(|route| Some((route, matched(route.path, path)?))).ok_or_else(|| unknown(path))
    }

    /// What a method needs. Whoever may look may ask which ones fit; whoever may not is not told.
    pub(super) fn need(&self, method: &Method) -> Need {
        let fitting = self.methods.iter().find(|(fitting, _)| fitting == as_get(method));
        let is_open = self.methods.iter().all(|(_, need)| need.is_none());
        fitting.map_or((!is_open).then_some(Access::Read), |(_, need)| *need)
    }

    /// Refuses a method that does not fit.
    pub(super) fn fits(&self, method: &Method) -> Result<(), Problem> {
        let fits = method == Method::OPTIONS || self.methods.iter().any(|(fitting, _)| fitting == as_get(method));
        if fits { Ok(()) } else { Err(Problem::method(Kind::Method, method, self.allowed())) }
    }

    /// The methods that fit, as `Allow` has them.
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

/// `HEAD` is `GET` without the body.
pub(super) fn as_get(method: &Method) -> &Method {
    if *method == Method::HEAD { &Method::GET } else { method }
}

/// What stands for the name in a template, if the path is of its form; nothing if there is no name in it.
fn matched<'p>(template: &str, path: &'p str) -> Option<&'p str> {
    let Some((front, rest)) = template.split_once('{') else { return (template == path).then_some("") };
    let (name, back) = rest.split_once('}')?;
    let given = path.strip_prefix(front)?.strip_suffix(back)?;
    let fits = name == "file" || !(given.is_empty() || given.contains('/'));
    fits.then_some(given)
}

/// A path that leads nowhere, with the one that was probably meant.
pub(super) fn unknown(path: &str) -> Problem {
    let remedy = match nearest(path, ROUTES.iter().map(|route| route.path)) {
        Some(near) => format!("did you mean {near}?"),
        None => "see /docs/ for what there is".to_owned(),
    };
    Problem::new(Kind::UnknownPath, format!("{} leads nowhere: {remedy}", shown(path)))
}
