//! Text of a rule file: bounded reading, lines and columns.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use thiserror::Error;

/// Maximum size of a rule file. Larger files are refused before they are loaded.
pub const MAX_FILE_BYTES: u64 = 16 << 20;

/// A byte range in a rule file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A named text.
#[derive(Debug, Default)]
pub struct SourceText {
    /// File name, for messages.
    pub name: String,
    /// The text.
    pub text: String,
    /// Offset of each line. Files are far smaller than 4 GiB, but may consist of line ends only.
    line_starts: Vec<u32>,
}

/// Error of reading a rule file.
#[derive(Debug, Error)]
pub enum ReadError {
    /// No such file.
    #[error("the file does not exist")]
    Missing,
    /// A symbolic link to no file.
    #[error("the path is a symbolic link to a file that does not exist")]
    DanglingLink,
    /// A directory.
    #[error("the path is a directory, not a rule file")]
    Directory,
    /// More than [`MAX_FILE_BYTES`].
    #[error("the file is larger than {} MiB, the maximum size of a rule file", MAX_FILE_BYTES >> 20)]
    TooLarge,
    /// Not UTF-8.
    #[error("the file is not valid UTF-8 at byte {at}")]
    NotUtf8 {
        /// Offset of the first invalid byte.
        at: usize,
    },
    /// Any other error of the operating system.
    #[error("the file cannot be read: {0}")]
    Io(#[from] std::io::Error),
}

impl ReadError {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Missing => "check the path",
            Self::DanglingLink => "check the target of the link",
            Self::Directory => "specify the file in it, such as rules.yaml",
            Self::TooLarge => "replace rules that differ only in one value by a rule with a `key`",
            Self::NotUtf8 { .. } => "save the file as UTF-8",
            Self::Io(_) => "check that this user has read permission",
        }
    }
}

impl Span {
    /// The range from `start` up to, but not including, `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }
}

impl SourceText {
    /// A text with the name of its file.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let ends = || text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let mut lines = Vec::with_capacity(1 + ends().count());
        lines.push(0);
        lines.extend(ends().filter_map(|(at, _)| u32::try_from(at + 1).ok()));
        Self { name: name.into(), text, line_starts: lines }
    }

    /// Line (from 1) and column (from 1, in characters) of a byte offset.
    pub fn position(&self, at: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start as usize <= at).max(1);
        let start = self.line_start(line).unwrap_or(0);
        let column = self.text.get(start..at).map_or(1, |before| before.chars().count() + 1);
        (line, column)
    }

    /// Byte range of a line (from 1), without its line end.
    pub(crate) fn line(&self, line: usize) -> Span {
        let start = self.line_start(line).unwrap_or(self.text.len());
        let end = self.line_start(line + 1).map_or(self.text.len(), |next| next - 1);
        let end = if self.text[start..end].ends_with('\r') { end - 1 } else { end };
        Span { start, end }
    }

    fn line_start(&self, line: usize) -> Option<usize> {
        self.line_starts.get(line.saturating_sub(1)).map(|start| *start as usize)
    }
}

/// Reads a rule file, at most [`MAX_FILE_BYTES`] of it, regardless of its reported size.
pub fn read(path: &Path) -> Result<String, ReadError> {
    let kind = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound if fs::symlink_metadata(path).is_ok() => ReadError::DanglingLink,
        ErrorKind::NotFound => ReadError::Missing,
        _ => ReadError::Io(error),
    })?;
    if kind.is_dir() {
        return Err(ReadError::Directory);
    }
    if kind.len() > MAX_FILE_BYTES {
        return Err(ReadError::TooLarge);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(ReadError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|error| ReadError::NotUtf8 { at: error.utf8_error().valid_up_to() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let source = SourceText::new("x", "a\nbé c\r\n");
        assert_eq!(source.position(0), (1, 1));
        assert_eq!(source.position(2), (2, 1));
        assert_eq!(source.position(6), (2, 4));
        assert_eq!(source.position(9), (3, 1));
        assert_eq!(source.position(99), (3, 1));
        let line = source.line(2);
        assert_eq!(&source.text[line.start..line.end], "bé c");
    }
}
