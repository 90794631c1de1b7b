//! Objects of names and texts: headers, query, cookies, attributes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use sluicegate_engine::rule::Attribute;

use super::Field;
use super::check::{Entries, Entry};
use super::place::Place;
use super::value::Text;

/// The most entries of one object. Each is compared with those before it.
const MOST: usize = 100;

/// Reads such an object.
pub(super) struct Pairs<'a, 'de> {
    pub(super) field: Field,
    pub(super) place: &'a Place,
    pub(super) entries: &'a mut Entries<'de>,
}

impl<'de> DeserializeSeed<'de> for Pairs<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pairs<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Self { field, place, entries } = self;
        let first = entries.len();
        while let Some(name) = object.next_key_seed(Text)? {
            let value = match checked(field, &name, &entries[first..]) {
                Ok(()) => object.next_value_seed(Text),
                Err(fault) => Err(A::Error::custom(fault)),
            };
            match value {
                Ok(value) if value.is_empty() && field == Field::Attributes => {
                    place.name(&name);
                    return Err(A::Error::custom("an empty attribute counts as none: leave it out, or say what it is"));
                }
                Ok(value) => entries.push(Entry { field, name, value }),
                Err(fault) => {
                    place.name(&name);
                    return Err(fault);
                }
            }
        }
        Ok(())
    }
}

/// Whether an entry can have this name, beside those before it.
fn checked(field: Field, name: &str, before: &[Entry<'_>]) -> Result<(), Cow<'static, str>> {
    if name.is_empty() {
        return Err("a name is empty: say which one it is".into());
    }
    if before.iter().any(|entry| entry.is(field, name)) {
        return Err("it is there twice: which one counts?".into());
    }
    if before.len() >= MOST {
        return Err(format!("there are more than {MOST} entries: send those that rules look at").into());
    }
    if field == Field::Attributes {
        return match name.parse::<Attribute>() {
            Ok(Attribute::Custom(_)) => Ok(()),
            Ok(_) => Err("this attribute has a field of its own: put it there".into()),
            Err(error) => Err(error.message.into()),
        };
    }
    Ok(())
}
