//! The object that a body is.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use sluicegate_http::call::nearest;
use sluicegate_http::normal_path;

use super::asked::{Asked, LONGEST_WAIT, MOST_TTL, SHORTEST_TTL};
use super::check::Check;
use super::pairs::Pairs;
use super::place::Place;
use super::value::{self, Flag, Number, Span, Text};
use super::{Field, Form};
use crate::http::problem::shown;

/// Reads an object of one form.
#[derive(Clone, Copy)]
pub(super) struct Object<'a> {
    pub(super) form: Form,
    pub(super) place: &'a Place,
    /// The most checks in a list.
    pub(super) most_checks: usize,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = Asked<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Asked<'de>, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = Asked<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Asked<'de>, A::Error> {
        let mut asked = Asked::default();
        while let Some(name) = object.next_key_seed(Text)? {
            let Some(field) = self.form.field(&name) else {
                self.place.name(&name);
                return Err(A::Error::custom(self.unknown(&name)));
            };
            self.place.field.set(Some(field));
            if !asked.fields.insert(field) {
                return Err(A::Error::custom("it is there twice: which one counts?"));
            }
            self.value(field, &mut asked, &mut object)?;
            self.place.field.set(None);
        }
        Ok(asked)
    }
}

impl Object<'_> {
    fn value<'de, A: MapAccess<'de>>(
        self,
        field: Field,
        asked: &mut Asked<'de>,
        object: &mut A,
    ) -> Result<(), A::Error> {
        let check = &mut asked.check;
        match field {
            Field::Rule => check.rule = Some(named(object.next_value_seed(Text)?)?),
            Field::Side => check.side = value::side(&object.next_value_seed(Text)?)?,
            Field::Service => check.service = object.next_value_seed(Text)?,
            Field::Method => check.method = object.next_value_seed(Text)?,
            Field::Host => check.host = object.next_value_seed(Text)?,
            Field::Path => check.path = path(object.next_value_seed(Text)?)?,
            Field::ClientIp => check.client_ip = Some(value::address(&object.next_value_seed(Text)?)?),
            Field::Headers | Field::Query | Field::Cookies | Field::Attributes => {
                object.next_value_seed(Pairs { field, place: self.place, entries: &mut check.entries })?;
            }
            Field::Cost => check.cost = object.next_value_seed(Number)?,
            Field::Checks => asked.checks = object.next_value_seed(List(self))?,
            Field::AllOrNothing => asked.all_or_nothing = object.next_value_seed(Flag)?,
            Field::Ttl => {
                let span = Span { shortest: SHORTEST_TTL, longest: MOST_TTL };
                asked.ttl = Some(object.next_value_seed(span)?);
            }
            Field::Wait => {
                let span = Span { shortest: std::time::Duration::ZERO, longest: LONGEST_WAIT };
                asked.wait = object.next_value_seed(span)?;
            }
            Field::Reservation => asked.reservation = Some(named(object.next_value_seed(Text)?)?),
            Field::Actual => asked.actual = Some(object.next_value_seed(Number)?),
            Field::Cancel => asked.cancel = object.next_value_seed(Flag)?,
        }
        Ok(())
    }

    fn unknown(self, name: &str) -> String {
        let known = || self.form.fields().map(Field::name);
        match nearest(name, known()) {
            Some(near) => format!("unknown field {}: did you mean '{near}'?", shown(name)),
            None => {
                let known: Vec<&str> = known().collect();
                format!("unknown field {}: there are {}", shown(name), known.join(", "))
            }
        }
    }
}

/// Text that must not be empty.
fn named<E: Error>(text: Cow<'_, str>) -> Result<Cow<'_, str>, E> {
    if text.is_empty() { Err(E::custom("it is empty: say which one, or leave it out")) } else { Ok(text) }
}

/// A path in its one spelling, which is how rules have it.
fn path<E: Error>(text: Cow<'_, str>) -> Result<Cow<'_, str>, E> {
    if text.contains(['?', '#']) {
        return Err(E::custom("the query is in it: put its parameters into `query`"));
    }
    if text.is_empty() {
        return Ok(text);
    }
    Ok(match normal_path(&text) {
        Cow::Owned(normal) => Cow::Owned(normal),
        // As it was.
        Cow::Borrowed(_) => text,
    })
}

/// Reads a list of checks.
struct List<'a>(Object<'a>);

impl<'de> DeserializeSeed<'de> for List<'_> {
    type Value = Vec<Check<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Vec<Check<'de>>, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = Vec<Check<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of checks")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Check<'de>>, A::Error> {
        let Object { place, most_checks, .. } = self.0;
        let mut checks = Vec::new();
        place.field.set(None);
        loop {
            place.index.set(Some(checks.len()));
            let Some(asked) = list.next_element_seed(Object { form: Form::Listed, ..self.0 })? else { break };
            if checks.len() == most_checks {
                return Err(A::Error::custom(format_args!("more than {most_checks} checks: send fewer at once")));
            }
            checks.push(asked.check);
        }
        place.index.set(None);
        place.field.set(Some(Field::Checks));
        match checks.is_empty() {
            true => Err(A::Error::custom("there is no check in it: send one at least")),
            false => Ok(checks),
        }
    }
}
