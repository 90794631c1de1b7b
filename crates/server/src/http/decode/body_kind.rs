//! Body kinds and the fields each may have.

use super::BodyField;
use super::field::BodyField::{
    Actual, AllOrNothing, Attributes, Cancel, Checks, ClientIp, Cookies, Cost, Direction, Headers, Host, Method, Path,
    Query, Reservation, Rule, Service, Ttl, Wait,
};

/// The purpose of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum BodyKind {
    /// One check, or a list.
    Check,
    /// A check in a list.
    ListItem,
    Reserve,
    Settle,
    Acquire,
    Renew,
}

/// The fields that describe a request.
pub(super) const CHECK_FIELDS: [BodyField; 12] =
    [Rule, Direction, Service, Method, Host, Path, ClientIp, Headers, Query, Cookies, Attributes, Cost];

impl BodyKind {
    /// The fields this kind may have.
    pub(in crate::http) fn fields(self) -> impl Iterator<Item = BodyField> {
        let (has_check, extra): (bool, &[BodyField]) = match self {
            Self::Check => (true, &[Checks, AllOrNothing]),
            Self::ListItem => (true, &[]),
            Self::Reserve => (true, &[Ttl]),
            Self::Settle => (false, &[Reservation, Actual, Cancel]),
            Self::Acquire => (true, &[Ttl, Wait]),
            Self::Renew => (false, &[Ttl]),
        };
        CHECK_FIELDS.into_iter().filter(move |_| has_check).chain(extra.iter().copied())
    }

    /// The field of this name, if this kind may have it.
    pub(super) fn field(self, name: &str) -> Option<BodyField> {
        self.fields().find(|field| field.name() == name)
    }
}
