//! What is said to the rulebook's script, and what it says.

use std::sync::LazyLock;

use bytes::Bytes;
use redis::Value;

use super::kept::{check, is_number};
use super::{KeptRules, KeptVersion, MOST_BYTES, MOST_VERSIONS, RulebookError};
use crate::invocation::{Invocation, Script};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../scripts/rulebook.lua")));

/// The script of the rulebook.
pub(crate) fn script() -> &'static Script {
    &SCRIPT
}

/// What is wanted of the rulebook.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question<'a> {
    Number,
    Versions,
    /// Those of this number, or the current ones.
    Rules(Option<u64>),
    Publish {
        text: &'a str,
        author: &'a str,
        comment: &'a str,
        based_on: Option<u64>,
        seen: u64,
    },
    PutBack(&'a KeptRules),
}

/// What the rulebook says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The number of the current version; 0 if there is none.
    Number(u64),
    Versions(Vec<KeptVersion>),
    Rules(Option<KeptRules>),
}

impl Question<'_> {
    /// The call of the script, at the book with this key. Fails if it asks for what cannot be kept.
    pub(crate) fn invocation(&self, key: &Bytes) -> Result<Invocation, RulebookError> {
        let number = |number: u64| Bytes::from(number.to_string());
        let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let bounds = [number(MOST_VERSIONS as u64), number(MOST_BYTES)];
        let mut arguments = Vec::with_capacity(8);
        match *self {
            Self::Number => arguments.push(Bytes::from_static(b"number")),
            Self::Versions => arguments.push(Bytes::from_static(b"versions")),
            Self::Rules(which) => arguments.extend([Bytes::from_static(b"rules"), number(which.unwrap_or(0))]),
            Self::Publish { text: rules, author, comment, based_on, seen } => {
                check(rules, author, comment)?;
                let based_on = based_on.map_or(Bytes::from_static(b"-1"), number);
                arguments.push(Bytes::from_static(b"publish"));
                arguments.extend(bounds);
                arguments.extend([number(seen), based_on, text(author), text(comment), text(rules)]);
            }
            Self::PutBack(KeptRules { version, text: rules }) => {
                check(rules, &version.author, &version.comment)?;
                if !is_number(version.number) {
                    return Err(RulebookError::Number { number: version.number });
                }
                let version = KeptVersion { bytes: rules.len() as u64, ..version.clone() };
                arguments.push(Bytes::from_static(b"put_back"));
                arguments.extend(bounds);
                arguments.extend([number(version.number), Bytes::from(version.lines()), text(rules)]);
            }
        }
        Ok(Invocation { script: &SCRIPT, keys: vec![key.clone()], arguments })
    }
}

impl Answer {
    /// Reads what the script said of the book with this key.
    pub(crate) fn read(key: &Bytes, answer: Value) -> Result<Self, RulebookError> {
        let foreign = |reason: &str| {
            let (key, reason) = (String::from_utf8_lossy(key).into_owned(), reason.to_owned());
            RulebookError::Foreign { key, reason }
        };
        let parts = texts(answer).ok_or_else(RulebookError::unintelligible)?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts[..] {
            ["number" | "published", number] => {
                number.parse().map(Self::Number).map_err(|_| RulebookError::unintelligible())
            }
            ["overtaken", current] => {
                let current = current.parse().map_err(|_| RulebookError::unintelligible())?;
                Err(RulebookError::Overtaken { current })
            }
            ["none"] => Ok(Self::Rules(None)),
            ["rules", number, lines, text] => {
                let version = KeptVersion::read(number, lines).filter(|version| version.bytes == text.len() as u64);
                let version = version.ok_or_else(|| foreign(&format!("version {number} was written by another")))?;
                Ok(Self::Rules(Some(KeptRules { version, text: text.to_owned() })))
            }
            ["versions", ref versions @ ..] => {
                let read = |version: &[&str]| match version {
                    [number, lines] => KeptVersion::read(number, lines)
                        .ok_or_else(|| foreign(&format!("version {number} was written by another"))),
                    _ => Err(RulebookError::unintelligible()),
                };
                versions.chunks(2).map(read).collect::<Result<_, _>>().map(Self::Versions)
            }
            ["foreign", reason] => Err(foreign(reason)),
            _ => Err(RulebookError::unintelligible()),
        }
    }
}

/// The parts of an answer. `None` if it has none, or one is no text.
fn texts(answer: Value) -> Option<Vec<String>> {
    let Value::Array(parts) = answer else { return None };
    let text = |part| match part {
        Value::BulkString(bytes) => String::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    };
    parts.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreErrorKind;

    fn said(parts: &[&str]) -> Value {
        Value::Array(parts.iter().map(|part| Value::BulkString(part.as_bytes().to_vec())).collect())
    }

    #[test]
    fn answers_of_no_rulebook_are_refused() {
        let key = Bytes::from_static(b"test:{rulebook}");
        let no_answers = [
            Value::Nil,
            Value::Int(7),
            said(&[]),
            said(&["number"]),
            said(&["number", "seven"]),
            said(&["number", "-7"]),
            said(&["rules", "7"]),
            said(&["versions", "7"]),
            said(&["overtaken", ""]),
            Value::Array(vec![Value::BulkString(vec![0xff])]),
        ];
        for answer in no_answers {
            let heard = Answer::read(&key, answer.clone());
            assert!(
                matches!(heard, Err(RulebookError::Store { kind: StoreErrorKind::Unintelligible, .. })),
                "{answer:?}: {heard:?}"
            );
        }
        for version in [["rules", "7", "1\n4\nalice\n", "text, longer"], ["rules", "0", "1\n4\nalice\n", "text"]] {
            assert!(matches!(Answer::read(&key, said(&version)), Err(RulebookError::Foreign { .. })));
        }
    }
}
