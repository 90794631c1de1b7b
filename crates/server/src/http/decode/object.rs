//! Decodes the top-level object of a body.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use sluicegate_engine::spelling::nearest;
use sluicegate_http_adapter::normalize_path;

use super::check::CheckRequest;
use super::json_pointer::JsonPointer;
use super::request::{ApiRequest, MAX_TTL, MAX_WAIT, MIN_TTL};
use super::string_map::StringMapSeed;
use super::value::{self, BoolSeed, DurationSeed, NumberSeed, TextSeed};
use super::{BodyField, BodyKind};
use crate::http::problem::quote_input;

/// Decodes an object of one body kind.
#[derive(Clone, Copy)]
pub(super) struct BodySeed<'a> {
    pub(super) kind: BodyKind,
    pub(super) pointer: &'a JsonPointer,
    /// Maximum number of checks in a list.
    pub(super) max_checks: usize,
}

impl<'de> DeserializeSeed<'de> for BodySeed<'_> {
    type Value = ApiRequest<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<ApiRequest<'de>, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for BodySeed<'_> {
    type Value = ApiRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<ApiRequest<'de>, A::Error> {
        let mut request = ApiRequest::default();
        while let Some(name) = object.next_key_seed(TextSeed)? {
            let Some(field) = self.kind.field(&name) else {
                self.pointer.set_name(&name);
                return Err(A::Error::custom(self.unknown_field(&name)));
            };
            self.pointer.field.set(Some(field));
            if !request.fields.insert(field) {
                return Err(A::Error::custom("duplicate field: send it once"));
            }
            self.value(field, &mut request, &mut object)?;
            self.pointer.field.set(None);
        }
        Ok(request)
    }
}

impl BodySeed<'_> {
    fn value<'de, A: MapAccess<'de>>(
        self,
        field: BodyField,
        request: &mut ApiRequest<'de>,
        object: &mut A,
    ) -> Result<(), A::Error> {
        let check = &mut request.check;
        match field {
            BodyField::Rule => check.rule = Some(non_empty(object.next_value_seed(TextSeed)?)?),
            BodyField::Direction => check.direction = value::direction(&object.next_value_seed(TextSeed)?)?,
            BodyField::Service => check.service = object.next_value_seed(TextSeed)?,
            BodyField::Method => check.method = object.next_value_seed(TextSeed)?,
            BodyField::Host => check.host = object.next_value_seed(TextSeed)?,
            BodyField::Path => check.path = normalized_path(object.next_value_seed(TextSeed)?)?,
            BodyField::ClientIp => check.client_ip = Some(value::address(&object.next_value_seed(TextSeed)?)?),
            BodyField::Headers | BodyField::Query | BodyField::Cookies | BodyField::Attributes => {
                object.next_value_seed(StringMapSeed { field, pointer: self.pointer, entries: &mut check.entries })?;
            }
            BodyField::Cost => check.cost = object.next_value_seed(NumberSeed)?,
            BodyField::Checks => request.checks = object.next_value_seed(CheckListSeed(self))?,
            BodyField::AllOrNothing => request.all_or_nothing = object.next_value_seed(BoolSeed)?,
            BodyField::Ttl => {
                let span = DurationSeed { min: MIN_TTL, max: MAX_TTL };
                request.ttl = Some(object.next_value_seed(span)?);
            }
            BodyField::Wait => {
                let span = DurationSeed { min: std::time::Duration::ZERO, max: MAX_WAIT };
                request.wait = object.next_value_seed(span)?;
            }
            BodyField::Reservation => request.reservation = Some(non_empty(object.next_value_seed(TextSeed)?)?),
            BodyField::Actual => request.actual = Some(object.next_value_seed(NumberSeed)?),
            BodyField::Cancel => request.cancel = object.next_value_seed(BoolSeed)?,
        }
        Ok(())
    }

    fn unknown_field(self, name: &str) -> String {
        let known = || self.kind.fields().map(BodyField::name);
        match nearest(name, known()) {
            Some(near) => format!("unknown field {}: did you mean '{near}'?", quote_input(name)),
            None => {
                let known: Vec<&str> = known().collect();
                format!("unknown field {}: the fields are {}", quote_input(name), known.join(", "))
            }
        }
    }
}

/// Text that must not be empty.
fn non_empty<E: Error>(text: Cow<'_, str>) -> Result<Cow<'_, str>, E> {
    if text.is_empty() { Err(E::custom("empty value: set it or omit the field")) } else { Ok(text) }
}

/// Normalizes a path, as rules expect it.
fn normalized_path<E: Error>(text: Cow<'_, str>) -> Result<Cow<'_, str>, E> {
    if text.contains(['?', '#']) {
        return Err(E::custom("a path has no query or fragment: put query parameters into `query`"));
    }
    if text.is_empty() {
        return Ok(text);
    }
    Ok(match normalize_path(&text) {
        Cow::Owned(normal) => Cow::Owned(normal),
        // Already normalized.
        Cow::Borrowed(_) => text,
    })
}

/// Decodes a list of checks.
struct CheckListSeed<'a>(BodySeed<'a>);

impl<'de> DeserializeSeed<'de> for CheckListSeed<'_> {
    type Value = Vec<CheckRequest<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Vec<CheckRequest<'de>>, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for CheckListSeed<'_> {
    type Value = Vec<CheckRequest<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of checks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<CheckRequest<'de>>, A::Error> {
        let BodySeed { pointer, max_checks, .. } = self.0;
        let mut checks = Vec::new();
        pointer.field.set(None);
        loop {
            pointer.index.set(Some(checks.len()));
            let Some(request) = list.next_element_seed(BodySeed { kind: BodyKind::ListItem, ..self.0 })? else { break };
            if checks.len() == max_checks {
                return Err(A::Error::custom(format_args!("more than {max_checks} checks: send fewer per call")));
            }
            checks.push(request.check);
        }
        pointer.index.set(None);
        pointer.field.set(Some(BodyField::Checks));
        match checks.is_empty() {
            true => Err(A::Error::custom("empty list: send at least one check")),
            false => Ok(checks),
        }
    }
}
