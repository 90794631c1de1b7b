//! Routes of the HTTP API.

use http::Method;

use sluicegate_engine::spelling::nearest;

use super::problem::{ApiErrorKind, Problem, quote_input};

/// The endpoint of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiRoute<'p> {
    Root,
    Health,
    OpenApi,
    /// The documentation directory without its trailing slash.
    Docs,
    /// A file of the documentation.
    DocsFile(&'p str),
    Check,
    Reserve,
    Settle,
    Permits,
    /// A permit by id.
    Permit(&'p str),
    Auth,
}

/// All paths as in the OpenAPI document, with their methods. `HEAD` is allowed wherever `GET` is.
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
    // Served by the rate limit service.
    ("/json", POST),
];

const READ: &str = "GET, HEAD, OPTIONS";
pub(super) const POST: &str = "POST, OPTIONS";
/// Forward auth is called with the method of the original request.
pub(super) const ANY: &str = "*";

impl<'p> ApiRoute<'p> {
    pub(super) fn parse(path: &'p str) -> Result<Self, Problem> {
        Ok(match path {
            "/v1/check" => Self::Check,
            "/v1/reserve" => Self::Reserve,
            "/v1/settle" => Self::Settle,
            "/v1/permits" => Self::Permits,
            "/v1/auth" => Self::Auth,
            "/" => Self::Root,
            "/healthz" => Self::Health,
            "/openapi.json" => Self::OpenApi,
            "/docs" => Self::Docs,
            _ => match (path.strip_prefix("/v1/permits/"), path.strip_prefix("/docs/")) {
                (Some(id), _) if !id.is_empty() && !id.contains('/') => Self::Permit(id),
                (_, Some(file)) => Self::DocsFile(file),
                _ => return Err(unknown_path(path)),
            },
        })
    }

    /// The allowed methods, as in the `Allow` header.
    pub(super) const fn allowed_methods(self) -> &'static str {
        match self {
            Self::Root | Self::Health | Self::OpenApi | Self::Docs | Self::DocsFile(_) => READ,
            Self::Check | Self::Reserve | Self::Settle | Self::Permits => POST,
            Self::Permit(_) => "PUT, DELETE, OPTIONS",
            Self::Auth => ANY,
        }
    }

    /// True if the route needs no secret: the health check and the API documentation. Browsers cannot send a secret
    /// for a page they open.
    pub(super) const fn is_public(self) -> bool {
        matches!(self, Self::Health | Self::OpenApi | Self::Docs | Self::DocsFile(_))
    }
}

/// Refuses a method that is not allowed.
pub(super) fn check_method(method: &Method, allowed: &'static str) -> Result<(), Problem> {
    match allowed == ANY || allowed.split(", ").any(|candidate| candidate == method.as_str()) {
        true => Ok(()),
        false => Err(Problem::method(ApiErrorKind::Method, method, allowed)),
    }
}

/// Error for an unknown path, with a suggestion.
pub(super) fn unknown_path(path: &str) -> Problem {
    let remedy = match nearest(path, ROUTES.map(|(path, _)| path)) {
        Some(near) => format!("did you mean {near}?"),
        None => "see /docs for all paths".to_owned(),
    };
    Problem::new(ApiErrorKind::UnknownPath, format!("unknown path {}: {remedy}", quote_input(path)))
}
