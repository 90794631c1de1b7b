//! A request to decide, as described in JSON.

use std::borrow::Cow;
use std::net::IpAddr;

use sluicegate_engine::rule::{Attribute, Attributes, Direction, Request};
use smallvec::SmallVec;

use super::BodyField;

/// A header, query parameter, cookie or attribute.
#[derive(Debug)]
pub(super) struct NamedValue<'b> {
    pub(super) field: BodyField,
    pub(super) name: Cow<'b, str>,
    pub(super) value: Cow<'b, str>,
}

impl NamedValue<'_> {
    /// True if the value has this name. Header names ignore case.
    pub(super) fn matches(&self, field: BodyField, name: &str) -> bool {
        self.field == field
            && match field {
                BodyField::Headers => self.name.eq_ignore_ascii_case(name),
                _ => self.name == name,
            }
    }
}

pub(super) type NamedValues<'b> = SmallVec<[NamedValue<'b>; 4]>;

/// A request to decide, borrowed from the body.
#[derive(Debug)]
pub(in crate::http) struct CheckRequest<'b> {
    /// The rule to decide by; `None` for all matching rules.
    pub(in crate::http) rule: Option<Cow<'b, str>>,
    pub(super) direction: Direction,
    pub(super) service: Cow<'b, str>,
    pub(super) method: Cow<'b, str>,
    pub(super) host: Cow<'b, str>,
    /// Normalized.
    pub(super) path: Cow<'b, str>,
    pub(super) client_ip: Option<IpAddr>,
    pub(super) cost: u64,
    pub(super) entries: NamedValues<'b>,
}

impl Default for CheckRequest<'_> {
    fn default() -> Self {
        Self {
            rule: None,
            direction: Direction::Inbound,
            service: Cow::Borrowed(""),
            method: Cow::Borrowed(""),
            host: Cow::Borrowed(""),
            path: Cow::Borrowed(""),
            client_ip: None,
            cost: 1,
            entries: NamedValues::new(),
        }
    }
}

impl CheckRequest<'_> {
    /// The request as the engine sees it.
    pub(in crate::http) fn engine_request(&self) -> Request<'_> {
        Request {
            direction: self.direction,
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

impl Attributes for CheckRequest<'_> {
    fn get(&self, attribute: &Attribute) -> Option<Cow<'_, str>> {
        let (field, name) = match attribute {
            Attribute::Header(name) => (BodyField::Headers, name),
            Attribute::Query(name) => (BodyField::Query, name),
            Attribute::Cookie(name) => (BodyField::Cookies, name),
            Attribute::Custom(name) => (BodyField::Attributes, name),
            _ => return None,
        };
        let entry = self.entries.iter().find(|entry| entry.matches(field, name))?;
        Some(Cow::Borrowed(&entry.value))
    }
}
