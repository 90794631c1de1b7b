//! A request to decide about, as it was described.

use std::borrow::Cow;
use std::net::IpAddr;

use sluicegate_engine::rule::{Attribute, Attributes, Request, Side};
use smallvec::SmallVec;

use super::Field;

/// A header, parameter, cookie or attribute.
#[derive(Debug)]
pub(super) struct Entry<'b> {
    pub(super) field: Field,
    pub(super) name: Cow<'b, str>,
    pub(super) value: Cow<'b, str>,
}

impl Entry<'_> {
    /// Whether it is the entry of this name. To headers, case does not matter.
    pub(super) fn is(&self, field: Field, name: &str) -> bool {
        self.field == field
            && match field {
                Field::Headers => self.name.eq_ignore_ascii_case(name),
                _ => self.name == name,
            }
    }
}

pub(super) type Entries<'b> = SmallVec<[Entry<'b>; 4]>;

/// A request to decide about, borrowed from the body that describes it.
#[derive(Debug)]
pub(in crate::http) struct Check<'b> {
    /// The one rule to decide by; `None`: all that match.
    pub(in crate::http) rule: Option<Cow<'b, str>>,
    pub(super) side: Side,
    pub(super) service: Cow<'b, str>,
    pub(super) method: Cow<'b, str>,
    pub(super) host: Cow<'b, str>,
    /// In its normal spelling.
    pub(super) path: Cow<'b, str>,
    pub(super) client_ip: Option<IpAddr>,
    pub(super) cost: u64,
    pub(super) entries: Entries<'b>,
}

impl Default for Check<'_> {
    fn default() -> Self {
        Self {
            rule: None,
            side: Side::Inbound,
            service: Cow::Borrowed(""),
            method: Cow::Borrowed(""),
            host: Cow::Borrowed(""),
            path: Cow::Borrowed(""),
            client_ip: None,
            cost: 1,
            entries: Entries::new(),
        }
    }
}

impl Check<'_> {
    /// As rules look at it.
    pub(in crate::http) fn request(&self) -> Request<'_> {
        Request {
            side: self.side,
            service: &self.service,
            method: &self.method,
            host: &self.host,
            path: &self.path,
            client_ip: self.client_ip,
            cost: self.cost,
            attributes: self,
        }
    }
}

impl Attributes for Check<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let (field, name) = match attribute {
            Attribute::Header(name) => (Field::Headers, name),
            Attribute::Query(name) => (Field::Query, name),
            Attribute::Cookie(name) => (Field::Cookies, name),
            Attribute::Custom(name) => (Field::Attributes, name),
            _ => return None,
        };
        let entry = self.entries.iter().find(|entry| entry.is(field, name))?;
        Some(Cow::Borrowed(&entry.value))
    }
}
