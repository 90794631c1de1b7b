//! What stands in a body: fields that are known, each of them once, and nothing else.

use std::fmt;
use std::time::Duration;

use serde::de::{DeserializeOwned, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};
use sluicegate_engine::limit::parse;

use super::problem::{Kind, Problem, shown};

/// Reads a body, and says where it is wrong.
pub(super) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(body);
    if !body.trim_ascii_start().starts_with(b"{") {
        // Values without names could be told apart by their order, but nobody means it so.
        serde::de::IgnoredAny::deserialize(&mut json).map_err(|error| Problem::new(Kind::NotJson, told(&error)))?;
        return Err(Problem::new(Kind::Invalid, "it is no object: send one, such as {\"text\":\"...\"}"));
    }
    let read = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let pointer = pointer(error.path());
        let error = error.into_inner();
        let kind = if error.classify() == Category::Data { Kind::Invalid } else { Kind::NotJson };
        Problem::new(kind, told(&error)).at(pointer)
    })?;
    json.end().map_err(|error| Problem::new(Kind::NotJson, told(&error)))?;
    Ok(read)
}

/// What is wrong, in a line that can be read whatever was sent.
fn told(error: &serde_json::Error) -> String {
    const LONGEST: usize = 300;
    error
        .to_string()
        .chars()
        .take(LONGEST)
        .flat_map(|c| match c.is_control() {
            true => c.escape_default().collect::<Vec<_>>(),
            false => vec![c],
        })
        .collect()
}

/// A place as RFC 6901 has it, cut where it is too long to be of use.
fn pointer(path: &Path) -> String {
    const LONGEST: usize = 200;
    let mut pointer = String::new();
    for segment in path {
        let name = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key } | Segment::Enum { variant: key } => key.replace('~', "~0").replace('/', "~1"),
            Segment::Unknown => continue,
        };
        pointer.push('/');
        pointer.extend(name.chars().take(LONGEST));
    }
    pointer.chars().take(LONGEST).collect()
}

/// Names and values, each name once.
#[derive(Debug, Default)]
pub(super) struct Pairs(pub(super) Vec<(String, String)>);

/// More are not needed by anybody who asks about one request.
const MOST_PAIRS: usize = 256;

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Reading;
        impl<'de> Visitor<'de> for Reading {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of names and texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs: Vec<(String, String)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, String>()? {
                    if pairs.iter().any(|(known, _)| *known == name) {
                        return Err(A::Error::custom(format_args!(
                            "{} is there twice: which one counts?",
                            shown(&name)
                        )));
                    }
                    if pairs.len() == MOST_PAIRS {
                        return Err(A::Error::custom(format_args!("there are more than {MOST_PAIRS}: send fewer")));
                    }
                    pairs.push((name, value));
                }
                Ok(Pairs(pairs))
            }
        }
        json.deserialize_map(Reading)
    }
}

/// A text of one line, such as people write to say why.
#[derive(Debug, Default)]
pub(super) struct Line(pub(super) String);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        const LONGEST: usize = 500;
        let text = String::deserialize(json)?;
        if text.chars().any(char::is_control) {
            return Err(D::Error::custom("it has control characters: write one line"));
        }
        if text.chars().count() > LONGEST {
            return Err(D::Error::custom(format_args!("it has more than {LONGEST} characters: write less")));
        }
        Ok(Self(text))
    }
}

/// A span of time as rule files have it: `10m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lasting(pub(super) Duration);

impl<'de> Deserialize<'de> for Lasting {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        let text = String::deserialize(json)?;
        match parse::duration(&text) {
            Ok(span) if !span.is_zero() => Ok(Self(span)),
            Ok(_) => Err(D::Error::custom("it is no time at all: give it some, such as 10m")),
            Err(_) => Err(D::Error::custom(format_args!("{} is no time: write one such as 30s or 10m", shown(&text)))),
        }
    }
}
