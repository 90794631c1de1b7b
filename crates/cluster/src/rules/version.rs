//! Stored versions: metadata encoding and validation.

use std::time::{Duration, SystemTime};

use super::{MAX_RULES_BYTES, RuleRepositoryError};

/// Maximum length of an author's name, in bytes.
const MAX_AUTHOR_BYTES: usize = 200;
/// Maximum length of a comment, in bytes.
const MAX_COMMENT_BYTES: usize = 2_000;
/// The largest version number that Lua represents exactly, with all its digits.
const MAX_VERSION_NUMBER: u64 = 999_999_999_999_999;

/// A version of the cluster's rules, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredVersion {
    /// Its number. Later versions have larger ones.
    pub number: u64,
    /// Publication time, by the store's clock.
    pub at: SystemTime,
    /// The author.
    pub author: String,
    /// The author's comment.
    pub comment: String,
    /// Length of the text in bytes.
    pub bytes: u64,
}

/// A version of the cluster's rules, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRules {
    /// Its metadata.
    pub version: StoredVersion,
    /// The text.
    pub text: String,
}

impl StoredVersion {
    /// Encodes the metadata except the number: one line each.
    pub(super) fn encode(&self) -> String {
        let Self { at, author, comment, bytes, .. } = self;
        let micros = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros());
        format!("{micros}\n{bytes}\n{author}\n{comment}")
    }

    /// Decodes the output of [`encode`](Self::encode); `None` if it is foreign.
    pub(super) fn decode(number: &str, lines: &str) -> Option<Self> {
        let mut lines = lines.splitn(4, '\n');
        let micros = Duration::from_micros(lines.next()?.parse().ok()?);
        let bytes = lines.next()?.parse().ok()?;
        let mut comment = || lines.next().filter(|text| !text.contains(char::is_control)).map(str::to_owned);
        Some(Self {
            number: number.parse().ok().filter(|number| is_version_number(*number))?,
            at: SystemTime::UNIX_EPOCH.checked_add(micros)?,
            bytes,
            author: comment()?,
            comment: comment()?,
        })
    }
}

/// True if this is a valid version number.
pub(super) const fn is_version_number(number: u64) -> bool {
    0 < number && number <= MAX_VERSION_NUMBER
}

/// Validates a text and its metadata.
pub(super) fn validate(text: &str, author: &str, comment: &str) -> Result<(), RuleRepositoryError> {
    let bytes = text.len() as u64;
    if bytes > MAX_RULES_BYTES {
        return Err(RuleRepositoryError::TooLong { bytes, max: MAX_RULES_BYTES });
    }
    validate_metadata("author", author, MAX_AUTHOR_BYTES)?;
    validate_metadata("comment", comment, MAX_COMMENT_BYTES)
}

fn validate_metadata(field: &'static str, text: &str, max: usize) -> Result<(), RuleRepositoryError> {
    if text.len() > max {
        return Err(RuleRepositoryError::MetadataTooLong { field, bytes: text.len(), max });
    }
    match text.chars().find(|character| character.is_control()) {
        Some(character) => Err(RuleRepositoryError::ControlCharacter { field, character }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn version() -> StoredVersion {
        StoredVersion {
            number: 7,
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_763_337_600_123_456),
            author: "alice".to_owned(),
            comment: String::new(),
            bytes: 12,
        }
    }

    #[test]
    fn versions_round_trip() {
        assert_eq!(StoredVersion::decode("7", &version().encode()), Some(version()));
        let before_time = StoredVersion { at: SystemTime::UNIX_EPOCH - Duration::from_secs(1), ..version() };
        assert_eq!(StoredVersion::decode("7", &before_time.encode()).unwrap().at, SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn foreign_metadata_is_rejected() {
        let good = version().encode();
        for number in ["0", "-1", "", "1e3", "1000000000000000", "18446744073709551616"] {
            assert_eq!(StoredVersion::decode(number, &good), None, "{number}");
        }
        for lines in
            ["", "1\n2", "1\n2\nalice", "x\n2\nalice\n", "1\n-2\nalice\n", "1\n2\nal\u{1b}ice\n", "1\n2\na\nb\nc"]
        {
            assert_eq!(StoredVersion::decode("7", lines), None, "{lines:?}");
        }
        let far_future = format!("{}\n2\nalice\n", u64::MAX);
        assert!(StoredVersion::decode("7", &far_future).is_some(), "a time far in the future is accepted");
    }

    #[test]
    fn metadata_is_short_and_on_one_line() {
        let max = "x".repeat(MAX_COMMENT_BYTES);
        assert_eq!(validate("", &"x".repeat(MAX_AUTHOR_BYTES), &max), Ok(()));
        let long = validate("", "alice", &format!("{max}x")).unwrap_err().to_string();
        assert!(long.contains("the comment has 2001 bytes; the maximum is 2000"), "{long}");
        for text in ["a\nb", "a\rb", "\0", "\u{1b}[2J", "\u{85}"] {
            assert!(matches!(
                validate("", text, ""),
                Err(RuleRepositoryError::ControlCharacter { field: "author", .. })
            ));
            assert!(matches!(
                validate("", "", text),
                Err(RuleRepositoryError::ControlCharacter { field: "comment", .. })
            ));
        }
    }
}
