//! Errors of the HTTP API as problem documents (RFC 9457).
//!
//! Each kind has a `type` for programs; `detail` states the error and the remedy; `pointer` (RFC 6901)
//! locates the error in the JSON body.

use http::StatusCode;
use sluicegate_http_adapter::api;
pub(super) use sluicegate_http_adapter::api::quote_input;

use super::reservations::SlotError;

/// The kinds of API errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApiErrorKind {
    NotJson,
    Invalid,
    Unreadable,
    Unauthorized,
    Untrusted,
    UnknownPath,
    UnknownRule,
    UnknownReservation,
    Method,
    TooLarge,
    ContentType,
    StoreFull,
}

impl ApiErrorKind {
    /// All kinds.
    pub(super) const ALL: [Self; 12] = [
        Self::NotJson,
        Self::Invalid,
        Self::Unreadable,
        Self::Unauthorized,
        Self::Untrusted,
        Self::UnknownPath,
        Self::UnknownRule,
        Self::UnknownReservation,
        Self::Method,
        Self::TooLarge,
        Self::ContentType,
        Self::StoreFull,
    ];
}

impl api::ProblemKind for ApiErrorKind {
    fn describe(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NotJson => (StatusCode::BAD_REQUEST, "urn:sluicegate:not-json", "Invalid JSON"),
            Self::Invalid => (StatusCode::BAD_REQUEST, "urn:sluicegate:invalid", "Invalid request"),
            Self::Unreadable => (StatusCode::BAD_REQUEST, "urn:sluicegate:unreadable", "Body could not be read"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "urn:sluicegate:unauthorized", "Missing or wrong secret"),
            Self::Untrusted => (StatusCode::FORBIDDEN, "urn:sluicegate:untrusted", "Untrusted proxy or headers"),
            Self::UnknownPath => (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-path", "Unknown path"),
            Self::UnknownRule => (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-rule", "Unknown rule"),
            Self::UnknownReservation => {
                (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-reservation", "Unknown reservation or permit")
            }
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "urn:sluicegate:method", "Method not allowed"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "urn:sluicegate:too-large", "Body too large"),
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "urn:sluicegate:content-type", "Unsupported content type")
            }
            Self::StoreFull => (StatusCode::SERVICE_UNAVAILABLE, "urn:sluicegate:full", "Too many reservations"),
        }
    }
}

/// An API error.
pub(super) type Problem = api::Problem<ApiErrorKind>;

impl From<SlotError> for Problem {
    fn from(error: SlotError) -> Self {
        let detail = match error {
            SlotError::Full(max) => {
                format!("{max} reservations and permits are held: end some or raise `max_reservations`")
            }
            SlotError::NoRandomness => "the system has no randomness to create an id: try again later".to_owned(),
        };
        Self::new(ApiErrorKind::StoreFull, detail)
    }
}
