//! Decoded request body.

use std::borrow::Cow;
use std::time::Duration;

use super::body_kind::CHECK_FIELDS;
use super::check::CheckRequest;
use super::field::FieldSet;
use super::{BodyField, BodyKind};
use crate::http::problem::{ApiErrorKind, Problem};

/// Minimum time to live of a reservation or permit.
pub(super) const MIN_TTL: Duration = Duration::from_millis(1);
/// Maximum time to live without renewal.
pub(super) const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// Default time to live.
pub(super) const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// Maximum time to wait for a permit.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60 * 60);

/// A decoded request body; the fields in use depend on its [`BodyKind`](super::BodyKind).
#[derive(Debug, Default)]
pub(in crate::http) struct ApiRequest<'b> {
    /// The fields present in the body.
    pub(super) fields: FieldSet,
    /// The single check.
    pub(in crate::http) check: CheckRequest<'b>,
    /// The list of checks, if present; then never empty.
    pub(in crate::http) checks: Vec<CheckRequest<'b>>,
    pub(in crate::http) all_or_nothing: bool,
    pub(super) ttl: Option<Duration>,
    /// Maximum time in the queue.
    pub(in crate::http) wait: Duration,
    pub(super) reservation: Option<Cow<'b, str>>,
    pub(super) actual: Option<u64>,
    pub(super) cancel: bool,
}

/// The end of a reservation.
#[derive(Debug)]
pub(in crate::http) struct Settlement<'b> {
    pub(in crate::http) reservation: Cow<'b, str>,
    /// The actual cost; `None` cancels the reservation.
    pub(in crate::http) actual: Option<u64>,
}

impl<'b> ApiRequest<'b> {
    /// Refuses fields that exclude each other.
    pub(super) fn validated(self, kind: BodyKind) -> Result<Self, Problem> {
        let invalid = |field: BodyField, detail: &str| {
            Err(Problem::new(ApiErrorKind::Invalid, detail).at(format!("/{}", field.name())))
        };
        if kind == BodyKind::Check {
            match (self.fields.contains(BodyField::Checks), self.fields.any_of(&CHECK_FIELDS)) {
                (true, Some(field)) => return invalid(field, "not allowed with `checks`: set it in each check"),
                (false, _) if self.fields.contains(BodyField::AllOrNothing) => {
                    return invalid(BodyField::AllOrNothing, "only allowed with `checks`: put the check into a list");
                }
                _ => {}
            }
        }
        Ok(self)
    }

    /// The time to live, or its default.
    pub(in crate::http) fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(DEFAULT_TTL)
    }

    /// The time to live, if the body has one.
    pub(in crate::http) const fn explicit_ttl(&self) -> Option<Duration> {
        self.ttl
    }

    /// Converts the body into a settlement.
    pub(in crate::http) fn into_settlement(self) -> Result<Settlement<'b>, Problem> {
        let invalid = |detail: &str| Problem::new(ApiErrorKind::Invalid, detail);
        let reservation =
            self.reservation.ok_or_else(|| invalid("`reservation` is missing: set the id of the reservation"))?;
        match (self.actual, self.cancel) {
            (Some(_), true) => Err(invalid("`actual` and `cancel` exclude each other: omit one").at("/cancel")),
            (None, false) => Err(invalid("no result: set the actual cost in `actual`, or `\"cancel\": true`")),
            (actual, _) => Ok(Settlement { reservation, actual }),
        }
    }
}
