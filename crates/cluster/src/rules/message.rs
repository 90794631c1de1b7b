//! Encoding and decoding of the rule repository's script calls.

use std::sync::LazyLock;

use bytes::Bytes;
use redis::Value;

use super::version::{is_version_number, validate};
use super::{MAX_TOTAL_BYTES, MAX_VERSIONS, RuleRepositoryError, StoredRules, StoredVersion};
use crate::invocation::{Invocation, Script};

static SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("../scripts/rules.lua")));

/// The script of the rule repository.
pub(crate) fn script() -> &'static Script {
    &SCRIPT
}

/// A query or update of the rule repository.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RuleQuery<'a> {
    Number,
    Versions,
    /// The version of this number, or the current one.
    Rules(Option<u64>),
    Publish {
        text: &'a str,
        author: &'a str,
        comment: &'a str,
        based_on: Option<u64>,
        max_seen: u64,
    },
    Restore(&'a StoredRules),
}

/// The script's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleReply {
    /// The number of the current version; 0 if there is none.
    Number(u64),
    Versions(Vec<StoredVersion>),
    Rules(Option<StoredRules>),
}

impl RuleQuery<'_> {
    /// Encodes the script call for the repository at this key. Fails if the text or its metadata is invalid.
    pub(crate) fn invocation(&self, key: &Bytes) -> Result<Invocation, RuleRepositoryError> {
        let number = |number: u64| Bytes::from(number.to_string());
        let text = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let bounds = [number(MAX_VERSIONS as u64), number(MAX_TOTAL_BYTES)];
        let mut arguments = Vec::with_capacity(8);
        match *self {
            Self::Number => arguments.push(Bytes::from_static(b"number")),
            Self::Versions => arguments.push(Bytes::from_static(b"versions")),
            Self::Rules(number_wanted) => {
                arguments.extend([Bytes::from_static(b"rules"), number(number_wanted.unwrap_or(0))]);
            }
            Self::Publish { text: rules, author, comment, based_on, max_seen: seen } => {
                validate(rules, author, comment)?;
                let based_on = based_on.map_or(Bytes::from_static(b"-1"), number);
                arguments.push(Bytes::from_static(b"publish"));
                arguments.extend(bounds);
                arguments.extend([number(seen), based_on, text(author), text(comment), text(rules)]);
            }
            Self::Restore(StoredRules { version, text: rules }) => {
                validate(rules, &version.author, &version.comment)?;
                if !is_version_number(version.number) {
                    return Err(RuleRepositoryError::InvalidVersion { number: version.number });
                }
                let version = StoredVersion { bytes: rules.len() as u64, ..version.clone() };
                arguments.push(Bytes::from_static(b"restore"));
                arguments.extend(bounds);
                arguments.extend([number(version.number), Bytes::from(version.encode()), text(rules)]);
            }
        }
        Ok(Invocation { script: &SCRIPT, keys: vec![key.clone()], arguments })
    }
}

impl RuleReply {
    /// Decodes the script's reply for the repository at this key.
    pub(crate) fn decode(key: &Bytes, reply: Value) -> Result<Self, RuleRepositoryError> {
        let foreign = |reason: &str| {
            let (key, reason) = (String::from_utf8_lossy(key).into_owned(), reason.to_owned());
            RuleRepositoryError::Foreign { key, reason }
        };
        let parts = reply_parts(reply).ok_or_else(RuleRepositoryError::invalid_reply)?;
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts[..] {
            ["number" | "published", number] => {
                number.parse().map(Self::Number).map_err(|_| RuleRepositoryError::invalid_reply())
            }
            ["conflict", current] => {
                let current = current.parse().map_err(|_| RuleRepositoryError::invalid_reply())?;
                Err(RuleRepositoryError::Conflict { current })
            }
            ["none"] => Ok(Self::Rules(None)),
            ["rules", number, lines, text] => {
                let version = StoredVersion::decode(number, lines).filter(|version| version.bytes == text.len() as u64);
                let version =
                    version.ok_or_else(|| foreign(&format!("version {number} was written by another program")))?;
                Ok(Self::Rules(Some(StoredRules { version, text: text.to_owned() })))
            }
            ["versions", ref versions @ ..] => {
                let read = |version: &[&str]| match version {
                    [number, lines] => StoredVersion::decode(number, lines)
                        .ok_or_else(|| foreign(&format!("version {number} was written by another program"))),
                    _ => Err(RuleRepositoryError::invalid_reply()),
                };
                versions.chunks(2).map(read).collect::<Result<_, _>>().map(Self::Versions)
            }
            ["foreign", reason] => Err(foreign(reason)),
            _ => Err(RuleRepositoryError::invalid_reply()),
        }
    }
}

/// The parts of a reply. `None` if it is no array, or a part is no text.
fn reply_parts(reply: Value) -> Option<Vec<String>> {
    let Value::Array(parts) = reply else { return None };
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

    fn reply_of(parts: &[&str]) -> Value {
        Value::Array(parts.iter().map(|part| Value::BulkString(part.as_bytes().to_vec())).collect())
    }

    #[test]
    fn malformed_replies_are_rejected() {
        let key = Bytes::from_static(b"test:{rules}");
        let malformed = [
            Value::Nil,
            Value::Int(7),
            reply_of(&[]),
            reply_of(&["number"]),
            reply_of(&["number", "seven"]),
            reply_of(&["number", "-7"]),
            reply_of(&["rules", "7"]),
            reply_of(&["versions", "7"]),
            reply_of(&["conflict", ""]),
            Value::Array(vec![Value::BulkString(vec![0xff])]),
        ];
        for reply in malformed {
            let decoded = RuleReply::decode(&key, reply.clone());
            assert!(
                matches!(decoded, Err(RuleRepositoryError::Store { kind: StoreErrorKind::InvalidReply, .. })),
                "{reply:?}: {decoded:?}"
            );
        }
        for version in [["rules", "7", "1\n4\nalice\n", "text, longer"], ["rules", "0", "1\n4\nalice\n", "text"]] {
            assert!(matches!(RuleReply::decode(&key, reply_of(&version)), Err(RuleRepositoryError::Foreign { .. })));
        }
    }
}
