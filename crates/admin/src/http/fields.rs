//! Strict decoding of JSON bodies: known fields only, each once.

use std::fmt;
use std::time::Duration;

use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};
use sluicegate_engine::limit::parse;
use utoipa::ToSchema;

use super::problem::{Problem, ProblemKind, quote_input};

/// Decodes a body, and reports the location of an error.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(body);
    if !body.trim_ascii_start().starts_with(b"{") {
        // Positional arrays would decode too, but are always a mistake.
        serde::de::IgnoredAny::deserialize(&mut json)
            .map_err(|error| Problem::new(ProblemKind::NotJson, error_message(&error)))?;
        return Err(Problem::new(ProblemKind::Invalid, "expected a JSON object, such as {\"text\":\"...\"}"));
    }
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let pointer = json_pointer(error.path());
        let error = error.into_inner();
        let kind = if error.classify() == Category::Data { ProblemKind::Invalid } else { ProblemKind::NotJson };
        Problem::new(kind, error_message(&error)).at(pointer)
    })?;
    json.end().map_err(|error| Problem::new(ProblemKind::NotJson, error_message(&error)))?;
    Ok(read)
}

/// Error message as one printable line, for any input.
fn error_message(error: &serde_json::Error) -> String {
    const MAX_CHARS: usize = 300;
    error
        .to_string()
        .chars()
        .take(MAX_CHARS)
        .flat_map(|c| match c.is_control() {
            true => c.escape_default().collect::<Vec<_>>(),
            false => vec![c],
        })
        .collect()
}

/// JSON pointer (RFC 6901), truncated to a useful length.
fn json_pointer(path: &Path) -> String {
    const MAX_CHARS: usize = 200;
    let mut pointer = String::new();
    for segment in path {
        let name = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } | Segment::Enum { variant: key } => key.replace('~', "~0").replace('/', "~1"),
            Segment::Unknown => continue,
        };
        pointer.push('/');
        pointer.extend(name.chars().take(MAX_CHARS));
    }
    pointer.chars().take(MAX_CHARS).collect()
}

/// Names and values with unique names.
#[derive(Debug, Default, ToSchema)]
#[schema(value_type = BTreeMap<String, String>)]
pub(super) struct StringPairs(pub(super) Vec<(String, String)>);

/// Enough for the description of one request.
const MAX_PAIRS: usize = 256;

impl<'de> Deserialize<'de> for StringPairs {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct PairsVisitor;
        impl<'de> Visitor<'de> for PairsVisitor {
            type Value = StringPairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of string values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StringPairs, A::Error> {
                let mut pairs: Vec<(String, String)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if pairs.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format_args!("duplicate name {}", quote_input(&name))));
                    }
                    if pairs.len() == MAX_PAIRS {
                        return Err(A::Error::custom(format_args!("more than {MAX_PAIRS} entries")));
                    }
                    pairs.push((name, value));
                }
                Ok(StringPairs(pairs))
            }
        }
        json.deserialize_map(PairsVisitor)
    }
}

/// A single line of text, such as a comment.
#[derive(Debug, Default, ToSchema)]
pub(super) struct SingleLine(pub(super) String);

impl<'de> Deserialize<'de> for SingleLine {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        const MAX_CHARS: usize = 500;
        let text = String::deserialize(json)?;
        if text.chars().any(char::is_control) {
            return Err(D::Error::custom("control characters are not allowed: use one line of text"));
        }
        if text.chars().count() > MAX_CHARS {
            return Err(D::Error::custom(format_args!("more than {MAX_CHARS} characters")));
        }
        Ok(Self(text))
    }
}

/// A duration in rule file syntax: `10m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToSchema)]
#[schema(as = Duration, value_type = String)]
pub(super) struct NonZeroDuration(pub(super) Duration);

impl<'de> Deserialize<'de> for NonZeroDuration {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let text = String::deserialize(json)?;
        match parse::duration(&text) {
            Ok(span) if !span.is_zero() => Ok(Self(span)),
            Ok(_) => Err(D::Error::custom("the duration must not be zero: use one such as 10m")),
            Err(_) => Err(D::Error::custom(format_args!(
                "invalid duration {}: use one such as 30s or 10m",
                quote_input(&text)
            ))),
        }
    }
}
