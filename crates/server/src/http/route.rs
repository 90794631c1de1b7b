//! Which path is what.

use http::Method;

use sluicegate_http::call::nearest;

use super::problem::{Kind, Problem, shown};

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'p> {
    Root,
    Health,
    Description,
    /// The folder of the documentation, without the slash that makes it one.
    Docs,
    /// A file of the documentation.
    DocsFile(&'p str),
    Check,
    Reserve,
    Settle,
    Permits,
    /// A permit, by its id.
    Permit(&'p str),
    Auth,
}

/// All paths, as the description has them, with the methods that fit. `HEAD` fits wherever `GET` does.
pub(super) const ROUTES: [(&str, &str); 12] = [
    ("/", READ),
    ("/healthz", READ),
    ("/openapi.json", READ),
    ("/docs", READ),
    ("/docs/{file}", READ),
    ("/v1/check", POST),
    ("/v1/reserve", POST),
    ("/v1/settle", POST),
    ("/v1/permits", POST),
    ("/v1/permits/{id}", "PUT, DELETE, OPTIONS"),
    ("/v1/auth", ANY),
    // Answered by the rate limit service, not here.
    ("/json", POST),
];

const READ: &str = "GET, HEAD, OPTIONS";
pub(super) const POST: &str = "POST, OPTIONS";
/// Forward auth calls with the method of the request it is about, whatever that is.
const ANY: &str = "*";

impl<'p> Route<'p> {
    pub(super) fn of(path: &'p str) -> Result<Self, Problem> {
        Ok(match path {
            "/v1/check" => Self::Check,
            "/v1/reserve" => Self::Reserve,
            "/v1/settle" => Self::Settle,
            "/v1/permits" => Self::Permits,
            "/v1/auth" => Self::Auth,
            "/" => Self::Root,
            "/healthz" => Self::Health,
            "/openapi.json" => Self::Description,
            "/docs" => Self::Docs,
            _ => match (path.strip_prefix("/v1/permits/"), path.strip_prefix("/docs/")) {
                (Some(id), _) if !id.is_empty() && !id.contains('/') => Self::Permit(id),
                (_, Some(file)) => Self::DocsFile(file),
                _ => return Err(unknown(path)),
            },
        })
    }

    /// The methods that fit, as `Allow` has them.
    pub(super) const fn allowed(self) -> &'static str {
        match self {
            Self::Root | Self::Health | Self::Description | Self::Docs | Self::DocsFile(_) => READ,
            Self::Check | Self::Reserve | Self::Settle | Self::Permits => POST,
            Self::Permit(_) => "PUT, DELETE, OPTIONS",
            Self::Auth => ANY,
        }
    }

    /// Whether it is there for everybody, also where there is a secret: whether all is well, and what only describes
    /// the API. Browsers cannot show a secret for a page that they open.
    pub(super) const fn is_open(self) -> bool {
        matches!(self, Self::Health | Self::Description | Self::Docs | Self::DocsFile(_))
    }
}

/// Refuses a method that is not among those allowed.
pub(super) fn fits(method: &Method, allowed: &'static str) -> Result<(), Problem> {
    match allowed == ANY || allowed.split(", ").any(|fitting| fitting == method.as_str()) {
        true => Ok(()),
        false => Err(Problem::method(Kind::Method, method, allowed)),
    }
}

/// A path that leads nowhere, with the one that was probably meant.
pub(super) fn unknown(path: &str) -> Problem {
    let remedy = match nearest(path, ROUTES.map(|(path, _)| path)) {
        Some(near) => format!("did you mean {near}?"),
        None => "see /docs for what there is".to_owned(),
    };
    Problem::new(Kind::UnknownPath, format!("{} leads nowhere: {remedy}", shown(path)))
}
