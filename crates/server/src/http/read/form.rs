//! Which fields go together.

use super::Field;
use super::field::Field::{
    Actual, AllOrNothing, Attributes, Cancel, Checks, ClientIp, Cookies, Cost, Headers, Host, Method, Path, Query,
    Reservation, Rule, Service, Side, Ttl, Wait,
};

/// What a body is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum Form {
    /// A check, or a list of them.
    Check,
    /// A check in a list.
    Listed,
    Reserve,
    Settle,
    Acquire,
    Renew,
}

/// What describes a request.
pub(super) const REQUEST: [Field; 12] =
    [Rule, Side, Service, Method, Host, Path, ClientIp, Headers, Query, Cookies, Attributes, Cost];

impl Form {
    /// The fields it may have.
    pub(in crate::http) fn fields(self) -> impl Iterator<Item = Field> {
        let (request, further): (bool, &[Field]) = match self {
            Self::Check => (true, &[Checks, AllOrNothing]),
            Self::Listed => (true, &[]),
            Self::Reserve => (true, &[Ttl]),
            Self::Settle => (false, &[Reservation, Actual, Cancel]),
            Self::Acquire => (true, &[Ttl, Wait]),
            Self::Renew => (false, &[Ttl]),
        };
        REQUEST.into_iter().filter(move |_| request).chain(further.iter().copied())
    }

    /// The field of this name, if it may have it.
    pub(super) fn field(self, name: &str) -> Option<Field> {
        self.fields().find(|field| field.name() == name)
    }
}
