//! What is answered when a request cannot be served: by whom it was stopped, in a form programs can read.
//!
//! | failure | status |
//! |---|---|
//! | the request makes no sense, is too large, or took too long to come | 400, 408, 431, 501 |
//! | there is no route for it | 404, 405 |
//! | nobody can be reached behind the route | 502, 503 |
//! | the answer took too long | 504 |
//!
//! What the rules refuse is not among them: that is rendered by `sluicegate_http`.

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;

/// Why a request is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It makes no sense.
    Bad(&'static str),
    /// There is more of its head than is read.
    TooLarge,
    /// It asks for something that is not done here.
    NotDone(&'static str),
    /// It took too long to come.
    Slow,
    /// No route leads anywhere.
    NoRoute,
    /// Only other methods have a route.
    OtherMethod {
        /// Which.
        allowed: String,
    },
    /// Too many are under way.
    Busy,
    /// No server of the upstream is well.
    NoServer {
        /// The upstream.
        upstream: String,
    },
    /// No server of the upstream could be reached.
    NoConnection {
        /// The upstream.
        upstream: String,
    },
    /// The server went away, or answered something that is not HTTP.
    BadAnswer {
        /// The upstream.
        upstream: String,
    },
    /// No server answered in time.
    Late {
        /// The upstream.
        upstream: String,
    },
}

impl Failure {
    pub(crate) const fn status(&self) -> StatusCode {
        match self {
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::NotDone(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::OtherMethod { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::Busy | Self::NoServer { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoConnection { .. } | Self::BadAnswer { .. } => StatusCode::BAD_GATEWAY,
            Self::Late { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// In a word, for logs.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Bad(_) => "bad_request",
            Self::TooLarge => "too_large",
            Self::NotDone(_) => "not_implemented",
            Self::Slow => "slow_request",
            Self::NoRoute => "no_route",
            Self::OtherMethod { .. } => "other_method",
            Self::Busy => "busy",
            Self::NoServer { .. } => "no_server",
            Self::NoConnection { .. } => "no_connection",
            Self::BadAnswer { .. } => "bad_answer",
            Self::Late { .. } => "late_answer",
        }
    }

    fn detail(&self) -> String {
        match self {
            Self::Bad(what) | Self::NotDone(what) => (*what).to_owned(),
            Self::TooLarge => "the head of the request is too large".to_owned(),
            Self::Slow => "the request's body took too long to come".to_owned(),
            Self::NoRoute => "no route leads anywhere from here".to_owned(),
            Self::OtherMethod { allowed } => format!("there is a route for {allowed} only"),
            Self::Busy => "too many requests are under way: come again in a moment".to_owned(),
            Self::NoServer { upstream } => format!("no server of {upstream} is well"),
            Self::NoConnection { upstream } => format!("no server of {upstream} could be reached"),
            Self::BadAnswer { upstream } => format!("{upstream} gave no usable answer"),
            Self::Late { upstream } => format!("{upstream} did not answer in time"),
        }
    }

    /// What is answered.
    pub(crate) fn render(&self) -> Response<Bytes> {
        let status = self.status();
        let problem = json!({
            "type": "about:blank",
            "title": status.canonical_reason().unwrap_or_default(),
            "status": status.as_u16(),
            "detail": self.detail(),
        });
        let mut response = Response::new(Bytes::from(problem.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        match self {
            Self::OtherMethod { allowed } => {
                if let Ok(allowed) = HeaderValue::try_from(allowed) {
                    headers.insert(ALLOW, allowed);
                }
            }
            Self::Busy | Self::NoServer { .. } => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // Where one request ends and the next begins may not be sure: there is no next one.
            Self::Bad(_) | Self::TooLarge | Self::NotDone(_) | Self::Slow => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
