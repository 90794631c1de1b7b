//! A rule file's text: read with a cap, and asked for lines and columns.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use thiserror::Error;

/// The largest rule file that is read. Larger ones are refused before they are loaded.
pub const LARGEST_FILE: u64 = 16 << 20;

/// A range of bytes in a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A named text.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
    /// Where each line begins. A file is far smaller than 4 GiB, and may be all line ends.
    lines: Vec<u32>,
}

/// Why a rule file could not be read at all.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    #[error("there is no such file")]
    Missing,
    #[error("this is a link to a file that does not exist")]
    DanglingLink,
    #[error("this is a directory, not a rule file")]
    Directory,
    #[error("the file has more than {} MiB, the most a rule file may have", LARGEST_FILE >> 20)]
    TooLarge,
    #[error("the file is not UTF-8: byte {at} cannot be read")]
    NotUtf8 { at: usize },
    #[error("the file cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

impl ReadError {
    /// What to do about it.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Missing => "check the path",
            Self::DanglingLink => "check where the link points to",
            Self::Directory => "name the file in it, such as rules.yaml",
            Self::TooLarge => "fewer rules with a key do the work of many rules without",
            Self::NotUtf8 { .. } => "save the file as UTF-8",
            Self::Io(_) => "check that this user may read it",
        }
    }
}

impl Span {
    /// From `start` to just before `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

impl Source {
    pub(crate) fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let ends = || text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let mut lines = Vec::with_capacity(1 + ends().count());
        lines.push(0);
        lines.extend(ends().filter_map(|(at, _)| u32::try_from(at + 1).ok()));
        Self { name: name.into(), text, lines }
    }

    /// The line (from 1) and column (from 1, in characters) of a byte.
    pub(crate) fn position(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start as usize <= at).max(1);
        let start = self.start_of(line).unwrap_or(0);
        let column = self.text.get(start..at).map_or(1, |before| before.chars().count() + 1);
        (line, column)
    }

    /// The bytes of a line (from 1), without its end.
    pub(crate) fn line(&self, line: usize) -> Span {
        let start = self.start_of(line).unwrap_or(self.text.len());
        let end = self.start_of(line + 1).map_or(self.text.len(), |next| next - 1);
        let end = if self.text[start..end].ends_with('\r') { end - 1 } else { end };
        Span { start, end }
    }

    fn start_of(&self, line: usize) -> Option<usize> {
        self.lines.get(line.saturating_sub(1)).map(|start| *start as usize)
    }
}

/// Reads a rule file. Never more than [`LARGEST_FILE`] of it, whatever its length is said to be.
pub(crate) fn read(path: &Path) -> Result<String, ReadError> {
    let kind = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound if fs::symlink_metadata(path).is_ok() => ReadError::DanglingLink,
        ErrorKind::NotFound => ReadError::Missing,
        _ => ReadError::Io(error),
    })?;
    if kind.is_dir() {
        return Err(ReadError::Directory);
    }
    if kind.len() > LARGEST_FILE {
        return Err(ReadError::TooLarge);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(ReadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| ReadError::NotUtf8 { at: error.utf8_error().valid_up_to() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let source = Source::new("x", "a\nbé c\r\n");
        assert_eq!(source.position(0), (1, 1));
        assert_eq!(source.position(2), (2, 1));
        assert_eq!(source.position(6), (2, 4));
        assert_eq!(source.position(9), (3, 1));
        assert_eq!(source.position(99), (3, 1));
        let line = source.line(2);
        assert_eq!(&source.text[line.start..line.end], "bé c");
    }
}
