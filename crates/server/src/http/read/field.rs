//! The fields there are.

/// A field of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::http) enum Field {
    Rule,
    Side,
    Service,
    Method,
    Host,
    Path,
    ClientIp,
    Headers,
    Query,
    Cookies,
    Attributes,
    Cost,
    Checks,
    AllOrNothing,
    Ttl,
    Wait,
    Reservation,
    Actual,
    Cancel,
}

impl Field {
    pub(in crate::http) const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Side => "side",
            Self::Service => "service",
            Self::Method => "method",
            Self::Host => "host",
            Self::Path => "path",
            Self::ClientIp => "client_ip",
            Self::Headers => "headers",
            Self::Query => "query",
            Self::Cookies => "cookies",
            Self::Attributes => "attributes",
            Self::Cost => "cost",
            Self::Checks => "checks",
            Self::AllOrNothing => "all_or_nothing",
            Self::Ttl => "ttl",
            Self::Wait => "wait",
            Self::Reservation => "reservation",
            Self::Actual => "actual",
            Self::Cancel => "cancel",
        }
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Fields(u32);

impl Fields {
    /// Adds one. Answers whether it was new.
    pub(super) fn insert(&mut self, field: Field) -> bool {
        let with = self.0 | 1 << field as u8;
        std::mem::replace(&mut self.0, with) != with
    }

    pub(super) const fn has(self, field: Field) -> bool {
        self.0 & 1 << field as u8 != 0
    }

    /// The first of these that is in the set.
    pub(super) fn any_of(self, fields: &[Field]) -> Option<Field> {
        fields.iter().copied().find(|field| self.has(*field))
    }
}
