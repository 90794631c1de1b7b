//! Decodes objects with text values: headers, query, cookies, attributes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use sluicegate_engine::rule::Attribute;

use super::BodyField;
use super::check::{NamedValue, NamedValues};
use super::json_pointer::JsonPointer;
use super::value::TextSeed;

/// Maximum number of entries per object. Each is compared with all earlier ones.
pub(super) const MAX_ENTRIES: usize = 100;

/// Decodes an object with text values.
pub(super) struct StringMapSeed<'a, 'de> {
    pub(super) field: BodyField,
    pub(super) pointer: &'a JsonPointer,
    pub(super) entries: &'a mut NamedValues<'de>,
}

impl<'de> DeserializeSeed<'de> for StringMapSeed<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for StringMapSeed<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with text values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        let Self { field, pointer, entries } = self;
        let first = entries.len();
        while let Some(name) = object.next_key_seed(TextSeed)? {
            let value = match check_name(field, &name, &entries[first..]) {
                Ok(()) => object.next_value_seed(TextSeed),
                Err(error) => Err(A::Error::custom(error)),
            };
            match value {
                Ok(value) if value.is_empty() && field == BodyField::Attributes => {
                    pointer.set_name(&name);
                    return Err(A::Error::custom("empty attribute: omit it or set a value"));
                }
                Ok(value) => entries.push(NamedValue { field, name, value }),
                Err(error) => {
                    pointer.set_name(&name);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Checks that a name is valid and not a duplicate.
fn check_name(field: BodyField, name: &str, before: &[NamedValue<'_>]) -> Result<(), Cow<'static, str>> {
    if name.is_empty() {
        return Err("empty name: set one".into());
    }
    if before.iter().any(|entry| entry.matches(field, name)) {
        return Err("duplicate name: send it once".into());
    }
    if before.len() >= MAX_ENTRIES {
        return Err(format!("more than {MAX_ENTRIES} entries: send only those that rules use").into());
    }
    if field == BodyField::Attributes {
        return match name.parse::<Attribute>() {
            Ok(Attribute::Custom(_)) => Ok(()),
            Ok(_) => Err("this attribute has its own field: use that field".into()),
            Err(error) => Err(error.message.into()),
        };
    }
    Ok(())
}
