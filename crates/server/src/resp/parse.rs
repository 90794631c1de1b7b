//! RESP command parser: arrays of bulk strings, and inline commands.
//!
//! A command is parsed in place; only inline commands are copied, to unescape quotes. The parser remembers its
//! position, so bytes that arrive in small chunks are not scanned twice. Errors have the wording of Redis.

use smallvec::SmallVec;
use thiserror::Error;

use super::inline;

/// Maximum number of words per command.
pub(super) const MAX_WORDS: usize = 1_024;

/// Maximum length of an inline command, as in Redis.
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Maximum number of words, and of bytes per word, before authentication, as in Redis.
const MAX_UNAUTH_WORDS: i64 = 10;
const MAX_UNAUTH_WORD_BYTES: i64 = 16 * 1024;

/// A protocol error. The connection must close: the start of the next command is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum ProtocolError {
    #[error("Protocol error: invalid multibulk length")]
    WordCount,
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthWordCount,
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0).escape_default())]
    ExpectedBulk(u8),
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthBulkLength,
    #[error("Protocol error: expected CRLF after a bulk string")]
    MissingTerminator,
    #[error("Protocol error: too big inline request")]
    LongLine,
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
}

/// Progress of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParseStatus {
    /// The command is incomplete.
    Incomplete,
    /// This many bytes without a command: an empty line or array.
    Empty(usize),
    /// A command of this many bytes.
    Command(usize),
}

/// Byte range of a word.
pub(super) type WordRange = (u32, u32);

/// Byte ranges of the words of a command.
pub(super) type WordRanges = SmallVec<[WordRange; 8]>;

/// Incremental parser of RESP commands.
#[derive(Debug, Default)]
pub(super) struct RespParser {
    max_bytes: usize,
    words: WordRanges,
    /// Number of words still expected; `None` before the array header.
    remaining_words: Option<usize>,
    /// Position up to which the command is parsed.
    position: usize,
    /// The unescaped text of an inline command.
    inline_text: Option<Vec<u8>>,
}

/// A command, borrowed from the input buffer.
#[derive(Clone, Copy)]
pub(super) struct RespCommand<'a> {
    bytes: &'a [u8],
    words: &'a [WordRange],
}

/// An owned command.
#[derive(Debug)]
pub(super) struct StoredCommand {
    bytes: Box<[u8]>,
    words: WordRanges,
}

impl StoredCommand {
    /// Size in bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn command(&self) -> RespCommand<'_> {
        RespCommand { bytes: &self.bytes, words: &self.words }
    }
}

impl<'a> RespCommand<'a> {
    /// Copies the command.
    pub(super) fn store(&self) -> StoredCommand {
        let end = self.words.last().map_or(0, |(_, end)| *end as usize);
        StoredCommand {
            bytes: self.bytes.get(..end).unwrap_or_default().into(),
            words: WordRanges::from_slice(self.words),
        }
    }

    /// Number of words including the name; at least one.
    pub(super) const fn len(&self) -> usize {
        self.words.len()
    }

    /// The word at `index`; empty if there is none.
    #[inline]
    pub(super) fn word(&self, index: usize) -> &'a [u8] {
        let (start, end) = self.words.get(index).copied().unwrap_or_default();
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// All words from `index` on.
    pub(super) fn words_from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let Self { bytes, words } = *self;
        let words = words.get(index..).unwrap_or_default();
        words.iter().map(move |(start, end)| bytes.get(*start as usize..*end as usize).unwrap_or_default())
    }

    /// True if the word at `index` equals `word`, ignoring case.
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.word(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

impl RespParser {
    /// Creates a parser for commands of at most `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes: max_bytes.min(u32::MAX as usize), ..Self::default() }
    }

    /// Continues to parse a command. `bytes` must start at its first byte, with the bytes of earlier calls and more.
    pub(super) fn parse(&mut self, bytes: &[u8], authenticated: bool) -> Result<ParseStatus, ProtocolError> {
        let remaining = match (self.remaining_words, bytes.first()) {
            (Some(remaining), _) => remaining,
            (None, None) => return Ok(ParseStatus::Incomplete),
            (None, Some(b'*')) => {
                let Some((count, taken)) = parse_length(&bytes[1..]).ok_or(ProtocolError::WordCount)? else {
                    return Ok(ParseStatus::Incomplete);
                };
                if count <= 0 {
                    return Ok(ParseStatus::Empty(1 + taken));
                }
                if count > MAX_UNAUTH_WORDS && !authenticated {
                    return Err(ProtocolError::UnauthWordCount);
                }
                self.position = 1 + taken;
                let count = usize::try_from(count).ok().filter(|count| *count <= MAX_WORDS);
                count.ok_or(ProtocolError::WordCount)?
            }
            (None, Some(_)) => return self.parse_inline(bytes),
        };
        self.parse_words(bytes, remaining, authenticated)
    }

    fn parse_words(
        &mut self,
        bytes: &[u8],
        mut remaining: usize,
        authenticated: bool,
    ) -> Result<ParseStatus, ProtocolError> {
        while remaining > 0 {
            self.remaining_words = Some(remaining);
            let Some((first, rest)) = bytes.get(self.position..).and_then(<[u8]>::split_first) else {
                return Ok(ParseStatus::Incomplete);
            };
            if *first != b'$' {
                return Err(ProtocolError::ExpectedBulk(*first));
            }
            let Some((len, taken)) = parse_length(rest).ok_or(ProtocolError::BulkLength)? else {
                return Ok(ParseStatus::Incomplete);
            };
            if len > MAX_UNAUTH_WORD_BYTES && !authenticated {
                return Err(ProtocolError::UnauthBulkLength);
            }
            let start = self.position + 1 + taken;
            let room = self.max_bytes.saturating_sub(start + 2);
            let len = usize::try_from(len).ok().filter(|len| *len <= room).ok_or(ProtocolError::BulkLength)?;
            let end = start + len;
            let Some(after) = bytes.get(end..end + 2) else {
                return Ok(ParseStatus::Incomplete);
            };
            if after != b"\r\n" {
                return Err(ProtocolError::MissingTerminator);
            }
            self.words.push((start as u32, end as u32));
            self.position = end + 2;
            remaining -= 1;
        }
        Ok(ParseStatus::Command(self.position))
    }

    fn parse_inline(&mut self, bytes: &[u8]) -> Result<ParseStatus, ProtocolError> {
        let max_bytes = MAX_INLINE_BYTES.min(self.max_bytes);
        let new = bytes.get(self.position..).unwrap_or_default();
        let Some(end) = new.iter().position(|byte| *byte == b'\n').map(|more| self.position + more) else {
            self.position = bytes.len();
            return if bytes.len() > max_bytes { Err(ProtocolError::LongLine) } else { Ok(ParseStatus::Incomplete) };
        };
        if end > max_bytes {
            return Err(ProtocolError::LongLine);
        }
        let text = inline::split_words(&bytes[..end], &mut self.words)?;
        if self.words.is_empty() {
            self.position = 0;
            return Ok(ParseStatus::Empty(end + 1));
        }
        self.inline_text = Some(text);
        Ok(ParseStatus::Command(end + 1))
    }

    /// The command found in these bytes.
    pub(super) fn command<'a>(&'a self, bytes: &'a [u8]) -> RespCommand<'a> {
        RespCommand { bytes: self.inline_text.as_deref().unwrap_or(bytes), words: &self.words }
    }

    /// Resets the parser for the next command.
    #[inline]
    pub(super) fn reset(&mut self) {
        self.words.clear();
        self.remaining_words = None;
        self.position = 0;
        self.inline_text = None;
    }
}

/// Parses a length; returns it with the number of bytes including the line end. `Some(None)` if incomplete,
/// `None` if invalid.
#[inline]
fn parse_length(bytes: &[u8]) -> Option<Option<(i64, usize)>> {
    /// More digits do not fit into 64 bits.
    const MAX_DIGITS: usize = 18;
    let negative = bytes.first() == Some(&b'-');
    let digits = if negative { &bytes[1..] } else { bytes };
    let mut value = 0i64;
    for (index, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if index < MAX_DIGITS => value = value * 10 + i64::from(byte - b'0'),
            b'\r' if index > 0 => {
                return match digits.get(index + 1) {
                    None => Some(None),
                    Some(b'\n') => {
                        let taken = usize::from(negative) + index + 2;
                        Some(Some((if negative { -value } else { value }, taken)))
                    }
                    Some(_) => None,
                };
            }
            _ => return None,
        }
    }
    Some(None)
}
