//! The one place where errors become answers.

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use sluicegate::pool::refusal;

use crate::error::SaleError;
use crate::order::BadName;
use crate::shop::UnknownStep;

/// A problem document.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    /// What programs go by.
    code: &'static str,
    detail: String,
    retry_after: Option<u64>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), retry_after: None }
    }

    /// Something that should not happen.
    pub(super) fn broken() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "broken", "the shop has failed: this is a fault of its own")
    }

    const fn after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<SaleError> for Problem {
    fn from(error: SaleError) -> Self {
        let detail = error.to_string();
        match error {
            SaleError::SoldOut => Self::new(StatusCode::GONE, "sold-out", detail),
            SaleError::LostRace => Self::new(StatusCode::CONFLICT, "lost-race", detail).after(1),
            SaleError::HasOrder { .. } => Self::new(StatusCode::CONFLICT, "has-order", detail),
            SaleError::NotPayable { .. } => Self::new(StatusCode::CONFLICT, "not-payable", detail),
            SaleError::NoOrder { .. } => Self::new(StatusCode::NOT_FOUND, "no-order", detail),
            SaleError::Limited(limited) => {
                let wait = limited.retry_after().map_or(1, |wait| wait.as_secs_f64().ceil() as u64);
                Self::new(StatusCode::TOO_MANY_REQUESTS, "limited", detail).after(wait.max(1))
            }
            SaleError::Database(error) if refusal(&error).is_some() => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).after(1)
            }
            // What they say of themselves is for whoever runs the shop, and not for buyers.
            SaleError::Database(_) | SaleError::Foreign(_) | SaleError::Cache(_) | SaleError::Queue(_) => {
                tracing::error!("{detail}");
                let detail = "a part of the shop cannot be reached: try again with the same key";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "out-of-order", detail).after(1)
            }
        }
    }
}

impl From<BadName> for Problem {
    fn from(error: BadName) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-name", error.to_string())
    }
}

impl From<UnknownStep> for Problem {
    fn from(error: UnknownStep) -> Self {
        Self::new(StatusCode::NOT_FOUND, "no-step", error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = json!({ "title": self.code, "status": self.status.as_u16(), "detail": self.detail });
        let kind = [("content-type", "application/problem+json")];
        let mut response = (self.status, kind, document.to_string()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
        }
        response
    }
}
