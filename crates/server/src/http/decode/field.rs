//! The fields of request bodies.

/// A field of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::http) enum BodyField {
    Rule,
    Direction,
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

impl BodyField {
    pub(in crate::http) const fn name(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::Direction => "direction",
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
pub(super) struct FieldSet(u32);

impl FieldSet {
    /// Adds a field. Returns true if it was new.
    pub(super) fn insert(&mut self, field: BodyField) -> bool {
        let with = self.0 | 1 << field as u8;
        std::mem::replace(&mut self.0, with) != with
    }

    pub(super) const fn contains(self, field: BodyField) -> bool {
        self.0 & 1 << field as u8 != 0
    }

    /// The first of `fields` that is in the set.
    pub(super) fn any_of(self, fields: &[BodyField]) -> Option<BodyField> {
        fields.iter().copied().find(|field| self.contains(*field))
    }
}
