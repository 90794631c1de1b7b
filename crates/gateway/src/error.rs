//! Proxy errors and their responses, as problem details in JSON.
//!
//! | error | status |
//! |---|---|
//! | the request is invalid, too large, or too slow | 400, 408, 431, 501 |
//! | there is no route | 404, 405 |
//! | the gateway is at capacity, or no server is reachable | 502, 503 |
//! | the response timed out | 504 |
//!
//! Refusals by rules are rendered by `sluicegate_http_adapter`.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use sluicegate_http_adapter::ProblemDocument;

/// Reason for a request not being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProxyError {
    /// The request is invalid.
    BadRequest(&'static str),
    /// The request head exceeds the size limit.
    HeadTooLarge,
    /// The request needs an unsupported feature.
    NotImplemented(&'static str),
    /// The request did not arrive in time.
    ClientTooSlow,
    /// No route matches.
    NoRoute,
    /// Routes exist for other methods only.
    MethodNotAllowed {
        /// The allowed methods.
        allowed: String,
    },
    /// No permit: too many requests in flight, or no upstream connection became free.
    AtCapacity,
    /// The upstream has no healthy server.
    NoHealthyServer {
        /// The upstream.
        upstream: String,
    },
    /// No server of the upstream could be connected to.
    ConnectFailed {
        /// The upstream.
        upstream: String,
    },
    /// The server closed the connection or sent an invalid response.
    BadResponse {
        /// The upstream.
        upstream: String,
    },
    /// No server responded in time.
    UpstreamTimeout {
        /// The upstream.
        upstream: String,
    },
}

impl ProxyError {
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Self::ClientTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::AtCapacity | Self::NoHealthyServer { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::ConnectFailed { .. } | Self::BadResponse { .. } => StatusCode::BAD_GATEWAY,
            Self::UpstreamTimeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Error code for the access log.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Self::BadRequest(_) => "bad_request",
            Self::HeadTooLarge => "header_too_large",
            Self::NotImplemented(_) => "not_implemented",
            Self::ClientTooSlow => "request_timeout",
            Self::NoRoute => "no_route",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::AtCapacity => "at_capacity",
            Self::NoHealthyServer { .. } => "no_healthy_server",
            Self::ConnectFailed { .. } => "connect_failed",
            Self::BadResponse { .. } => "bad_response",
            Self::UpstreamTimeout { .. } => "upstream_timeout",
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::BadRequest(detail) | Self::NotImplemented(detail) => (*detail).to_owned(),
            Self::HeadTooLarge => "the request headers are too large".to_owned(),
            Self::ClientTooSlow => "the request body timed out".to_owned(),
            Self::NoRoute => "no route matches the request".to_owned(),
            Self::MethodNotAllowed { allowed } => format!("the route allows only {allowed}"),
            Self::AtCapacity => "too many requests in flight: try again later".to_owned(),
            Self::NoHealthyServer { upstream } => format!("no healthy server of {upstream}"),
            Self::ConnectFailed { upstream } => format!("no server of {upstream} could be reached"),
            Self::BadResponse { upstream } => format!("{upstream} sent no valid response"),
            Self::UpstreamTimeout { upstream } => format!("{upstream} did not respond in time"),
        }
    }

    /// Renders the response.
    pub(crate) fn render(&self) -> Response<Bytes> {
        let mut response = ProblemDocument::of_status(self.status(), &self.detail()).render();
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self {
            Self::MethodNotAllowed { allowed } => {
                if let Ok(allowed) = HeaderValue::try_from(allowed) {
                    headers.insert(ALLOW, allowed);
                }
            }
            Self::AtCapacity | Self::NoHealthyServer { .. } => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // The end of the request may be ambiguous, so the connection is closed.
            Self::BadRequest(_) | Self::HeadTooLarge | Self::NotImplemented(_) | Self::ClientTooSlow => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
