//! Conversion of errors to problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use sluicegate::bulkhead::refusal;

use crate::error::SaleError;
use crate::order::InvalidName;
use crate::shop::UnknownStep;

/// Problem document.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    /// Machine-readable code, sent as the title.
    code: &'static str,
    detail: String,
    retry_after: Option<u64>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into(), retry_after: None }
    }

    /// Internal error.
    pub(super) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal-error", "internal error of the shop")
    }

    const fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<SaleError> for Problem {
    fn from(error: SaleError) -> Self {
        let detail = error.to_string();
        match error {
            SaleError::SoldOut => Self::new(StatusCode::GONE, "sold-out", detail),
            SaleError::LostRace => Self::new(StatusCode::CONFLICT, "lost-race", detail).retry_after(1),
            SaleError::HasOrder { .. } => Self::new(StatusCode::CONFLICT, "has-order", detail),
            SaleError::NotPayable { .. } => Self::new(StatusCode::CONFLICT, "not-payable", detail),
            SaleError::NoOrder { .. } => Self::new(StatusCode::NOT_FOUND, "unknown-order", detail),
            SaleError::Limited(limited) => {
                let wait = limited.retry_after().map_or(1, |wait| wait.as_secs_f64().ceil() as u64);
                Self::new(StatusCode::TOO_MANY_REQUESTS, "limited", detail).retry_after(wait.max(1))
            }
            SaleError::Database(error) if refusal(&error).is_some() => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail).retry_after(1)
            }
            // Details of backend errors are logged and not sent to buyers.
            SaleError::Database(_) | SaleError::InvalidRow(_) | SaleError::Cache(_) | SaleError::Queue(_) => {
                tracing::error!("{detail}");
                let detail = "a backend of the shop is unavailable: try again with the same key";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail).retry_after(1)
            }
        }
    }
}

impl From<InvalidName> for Problem {
    fn from(error: InvalidName) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-name", error.to_string())
    }
}

impl From<UnknownStep> for Problem {
    fn from(error: UnknownStep) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown-step", error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let document = json!({ "title": self.code, "status": self.status.as_u16(), "detail": self.detail });
        let content_type = [("content-type", "application/problem+json")];
        let mut response = (self.status, content_type, document.to_string()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
        }
        response
    }
}
