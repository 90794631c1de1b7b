//! Versions as they are kept: what is said of each in the store, and what may be.

use std::time::{Duration, SystemTime};

use super::{LONGEST_RULES, RulebookError};

/// How long the name of an author may be, in bytes.
const LONGEST_AUTHOR: usize = 200;
/// How long a comment may be, in bytes.
const LONGEST_COMMENT: usize = 2_000;
/// The largest number the store can tell from its neighbours, with all its digits.
const LARGEST_NUMBER: u64 = 999_999_999_999_999;

/// A version of the fleet's rules, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptVersion {
    /// Its number. Later versions have larger ones.
    pub number: u64,
    /// When it was published, by the store's clock.
    pub at: SystemTime,
    /// By whom.
    pub author: String,
    /// Why.
    pub comment: String,
    /// How long the text is.
    pub bytes: u64,
}

/// A version of the fleet's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRules {
    /// Which one.
    pub version: KeptVersion,
    /// The text.
    pub text: String,
}

impl KeptVersion {
    /// What the store keeps of it beside its number: a line each.
    pub(super) fn lines(&self) -> String {
        let Self { at, author, comment, bytes, .. } = self;
        let micros = at.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros());
        format!("{micros}\n{bytes}\n{author}\n{comment}")
    }

    /// Reads what [`lines`](Self::lines) wrote; `None` if nobody of ours did.
    pub(super) fn read(number: &str, lines: &str) -> Option<Self> {
        let mut lines = lines.splitn(4, '\n');
        let micros = Duration::from_micros(lines.next()?.parse().ok()?);
        let bytes = lines.next()?.parse().ok()?;
        let mut remark = || lines.next().filter(|text| !text.contains(char::is_control)).map(str::to_owned);
        Some(Self {
            number: number.parse().ok().filter(|number| is_number(*number))?,
            at: SystemTime::UNIX_EPOCH.checked_add(micros)?,
            bytes,
            author: remark()?,
            comment: remark()?,
        })
    }
}

/// Whether a version can have this number.
pub(super) const fn is_number(number: u64) -> bool {
    0 < number && number <= LARGEST_NUMBER
}

/// Whether this can be kept.
pub(super) fn check(text: &str, author: &str, comment: &str) -> Result<(), RulebookError> {
    let bytes = text.len() as u64;
    if bytes > LONGEST_RULES {
        return Err(RulebookError::TooLong { bytes, most: LONGEST_RULES });
    }
    remark("author", author, LONGEST_AUTHOR)?;
    remark("comment", comment, LONGEST_COMMENT)
}

fn remark(what: &'static str, text: &str, most: usize) -> Result<(), RulebookError> {
    if text.len() > most {
        return Err(RulebookError::RemarkTooLong { what, bytes: text.len(), most });
    }
    match text.chars().find(|character| character.is_control()) {
        Some(character) => Err(RulebookError::ControlCharacter { what, character }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn version() -> KeptVersion {
        KeptVersion {
            number: 7,
            at: SystemTime::UNIX_EPOCH + Duration::from_micros(1_763_337_600_123_456),
            author: "alice".to_owned(),
            comment: String::new(),
            bytes: 12,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(KeptVersion::read("7", &version().lines()), Some(version()));
        let before_time = KeptVersion { at: SystemTime::UNIX_EPOCH - Duration::from_secs(1), ..version() };
        assert_eq!(KeptVersion::read("7", &before_time.lines()).unwrap().at, SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn what_nobody_of_ours_wrote_is_not_read() {
        let good = version().lines();
        for number in ["0", "-1", "", "1e3", "1000000000000000", "18446744073709551616"] {
            assert_eq!(KeptVersion::read(number, &good), None, "{number}");
        }
        for lines in
            ["", "1\n2", "1\n2\nalice", "x\n2\nalice\n", "1\n-2\nalice\n", "1\n2\nal\u{1b}ice\n", "1\n2\na\nb\nc"]
        {
            assert_eq!(KeptVersion::read("7", lines), None, "{lines:?}");
        }
        let far = format!("{}\n2\nalice\n", u64::MAX);
        assert!(KeptVersion::read("7", &far).is_some(), "a time far off is a time");
    }

    #[test]
    fn remarks_are_short_and_in_one_line() {
        let longest = "x".repeat(LONGEST_COMMENT);
        assert_eq!(check("", &"x".repeat(LONGEST_AUTHOR), &longest), Ok(()));
        let long = check("", "alice", &format!("{longest}x")).unwrap_err().to_string();
        assert!(long.contains("the comment has 2001 bytes; at most 2000 are kept"), "{long}");
        for text in ["a\nb", "a\rb", "\0", "\u{1b}[2J", "\u{85}"] {
            assert!(matches!(check("", text, ""), Err(RulebookError::ControlCharacter { what: "author", .. })));
            assert!(matches!(check("", "", text), Err(RulebookError::ControlCharacter { what: "comment", .. })));
        }
    }
}
