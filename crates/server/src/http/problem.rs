//! What is wrong with a call, as problem documents (RFC 9457).
//!
//! Each kind has a `type` that programs can tell it by; `detail` says what is wrong this time, and the remedy;
//! `pointer` (RFC 6901) says where in the JSON that was sent.

use http::StatusCode;
use sluicegate_http::call;
pub(super) use sluicegate_http::call::shown;

use super::held::NoPlace;

/// The kinds of problems there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    NotJson,
    Invalid,
    Unreadable,
    Unauthorized,
    Untrusted,
    UnknownPath,
    UnknownRule,
    NotHeld,
    Method,
    TooLarge,
    ContentType,
    Full,
}

#[cfg(test)]
impl Kind {
    pub(super) const ALL: [Self; 12] = [
        Self::NotJson,
        Self::Invalid,
        Self::Unreadable,
        Self::Unauthorized,
        Self::Untrusted,
        Self::UnknownPath,
        Self::UnknownRule,
        Self::NotHeld,
        Self::Method,
        Self::TooLarge,
        Self::ContentType,
        Self::Full,
    ];
}

impl call::Kind for Kind {
    fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::NotJson => (StatusCode::BAD_REQUEST, "urn:sluicegate:not-json", "The body is not JSON"),
            Self::Invalid => (StatusCode::BAD_REQUEST, "urn:sluicegate:invalid", "The request makes no sense"),
            Self::Unreadable => (StatusCode::BAD_REQUEST, "urn:sluicegate:unreadable", "The body cannot be read"),
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "urn:sluicegate:unauthorized", "The secret is missing or wrong")
            }
            Self::Untrusted => {
                (StatusCode::FORBIDDEN, "urn:sluicegate:untrusted", "The word of this caller does not count")
            }
            Self::UnknownPath => {
                (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-path", "There is nothing at this path")
            }
            Self::UnknownRule => (StatusCode::NOT_FOUND, "urn:sluicegate:unknown-rule", "There is no such rule"),
            Self::NotHeld => (StatusCode::NOT_FOUND, "urn:sluicegate:not-held", "Nothing is held under this id"),
            Self::Method => {
                (StatusCode::METHOD_NOT_ALLOWED, "urn:sluicegate:method", "The method does not fit the path")
            }
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "urn:sluicegate:too-large", "The body is too large"),
            Self::ContentType => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "urn:sluicegate:content-type", "The body is of another type")
            }
            Self::Full => (StatusCode::SERVICE_UNAVAILABLE, "urn:sluicegate:full", "No more can be held"),
        }
    }
}

/// What is wrong with a call.
pub(super) type Problem = call::Problem<Kind>;

impl From<NoPlace> for Problem {
    fn from(none: NoPlace) -> Self {
        let detail = match none {
            NoPlace::Full(most) => format!("{most} are held already: end some, or raise `max_held`"),
            NoPlace::NoRandomness => "the system has no randomness to make up an id of: try again later".to_owned(),
        };
        Self::new(Kind::Full, detail)
    }
}
