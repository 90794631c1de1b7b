//! Commands as they come over the wire: arrays of bulk strings, and lines typed by hand.
//!
//! A command is read where it lies in the buffer; nothing is copied but the words of a typed line, whose quotes
//! have to be undone. The parser remembers how far it got, so bytes that come in drops are not read twice.
//! What is wrong is worded as Redis words it.

use smallvec::SmallVec;
use thiserror::Error;

use super::inline;

/// The most words a command may have.
pub(super) const MOST_WORDS: usize = 1_024;

/// The longest typed line, as in Redis.
const LONGEST_LINE: usize = 64 * 1024;

/// The most words of a command, and the longest of them, before the client has shown its password; as in Redis.
const STRANGER_WORDS: i64 = 10;
const STRANGER_WORD: i64 = 16 * 1024;

/// Bytes that are no command. The connection cannot go on: nobody knows where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum ProtocolError {
    #[error("Protocol error: invalid multibulk length")]
    WordCount,
    #[error("Protocol error: unauthenticated multibulk length")]
    StrangerWordCount,
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0).escape_default())]
    NoBulk(u8),
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    #[error("Protocol error: unauthenticated bulk length")]
    StrangerBulkLength,
    #[error("Protocol error: expected CRLF after a bulk string")]
    NoEnd,
    #[error("Protocol error: too big inline request")]
    LongLine,
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
}

/// How far the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A command is not complete yet.
    Incomplete,
    /// So many bytes that say nothing: an empty line, an array of nothing.
    Nothing(usize),
    /// A command of so many bytes.
    Command(usize),
}

/// Where a word lies.
pub(super) type Word = (u32, u32);

/// Where the words of a command lie.
pub(super) type Words = SmallVec<[Word; 8]>;

/// Reads one command after the other.
#[derive(Debug, Default)]
pub(super) struct Parser {
    most_bytes: usize,
    words: Words,
    /// How many words are to come; none while that is not known.
    to_come: Option<usize>,
    /// How far the command has been read.
    at: usize,
    /// The words of a typed line, if it is one.
    typed: Option<Vec<u8>>,
}

/// One command, where it lies in the buffer.
#[derive(Clone, Copy)]
pub(super) struct Command<'a> {
    bytes: &'a [u8],
    words: &'a [Word],
}

/// A command that outlives the buffer it came in.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: Box<[u8]>,
    words: Words,
}

impl Kept {
    /// How many bytes it takes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn command(&self) -> Command<'_> {
        Command { bytes: &self.bytes, words: &self.words }
    }
}

impl<'a> Command<'a> {
    /// The same, for later.
    pub(super) fn keep(&self) -> Kept {
        let end = self.words.last().map_or(0, |(_, end)| *end as usize);
        Kept { bytes: self.bytes.get(..end).unwrap_or_default().into(), words: Words::from_slice(self.words) }
    }

    /// How many words it has, its name among them; at least one.
    pub(super) const fn len(&self) -> usize {
        self.words.len()
    }

    /// A word; empty if there are not so many.
    #[inline]
    pub(super) fn word(&self, index: usize) -> &'a [u8] {
        let (start, end) = self.words.get(index).copied().unwrap_or_default();
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// All words from this one on.
    pub(super) fn words_from(&self, index: usize) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let Self { bytes, words } = *self;
        let words = words.get(index..).unwrap_or_default();
        words.iter().map(move |(start, end)| bytes.get(*start as usize..*end as usize).unwrap_or_default())
    }

    /// Whether a word is this one, in whatever case.
    pub(super) fn is(&self, index: usize, word: &str) -> bool {
        self.word(index).eq_ignore_ascii_case(word.as_bytes())
    }
}

impl Parser {
    /// Reads commands of at most so many bytes.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes: most_bytes.min(u32::MAX as usize), ..Self::default() }
    }

    /// Goes on with a command. `bytes` begin with its first byte, whatever was there the last time and more.
    pub(super) fn parse(&mut self, bytes: &[u8], authenticated: bool) -> Result<Parsed, ProtocolError> {
        let to_come = match (self.to_come, bytes.first()) {
            (Some(to_come), _) => to_come,
            (None, None) => return Ok(Parsed::Incomplete),
            (None, Some(b'*')) => {
                let Some((count, taken)) = length(&bytes[1..]).ok_or(ProtocolError::WordCount)? else {
                    return Ok(Parsed::Incomplete);
                };
                if count <= 0 {
                    return Ok(Parsed::Nothing(1 + taken));
                }
                if count > STRANGER_WORDS && !authenticated {
                    return Err(ProtocolError::StrangerWordCount);
                }
                self.at = 1 + taken;
                let count = usize::try_from(count).ok().filter(|count| *count <= MOST_WORDS);
                count.ok_or(ProtocolError::WordCount)?
            }
            (None, Some(_)) => return self.parse_line(bytes),
        };
        self.parse_words(bytes, to_come, authenticated)
    }

    fn parse_words(&mut self, bytes: &[u8], mut to_come: usize, authenticated: bool) -> Result<Parsed, ProtocolError> {
        while to_come > 0 {
            self.to_come = Some(to_come);
            let Some((first, rest)) = bytes.get(self.at..).and_then(<[u8]>::split_first) else {
                return Ok(Parsed::Incomplete);
            };
            if *first != b'$' {
                return Err(ProtocolError::NoBulk(*first));
            }
            let Some((len, taken)) = length(rest).ok_or(ProtocolError::BulkLength)? else {
                return Ok(Parsed::Incomplete);
            };
            if len > STRANGER_WORD && !authenticated {
                return Err(ProtocolError::StrangerBulkLength);
            }
            let start = self.at + 1 + taken;
            let room = self.most_bytes.saturating_sub(start + 2);
            let len = usize::try_from(len).ok().filter(|len| *len <= room).ok_or(ProtocolError::BulkLength)?;
            let end = start + len;
            let Some(after) = bytes.get(end..end + 2) else {
                return Ok(Parsed::Incomplete);
            };
            if after != b"\r\n" {
                return Err(ProtocolError::NoEnd);
            }
            self.words.push((start as u32, end as u32));
            self.at = end + 2;
            to_come -= 1;
        }
        Ok(Parsed::Command(self.at))
    }

    fn parse_line(&mut self, bytes: &[u8]) -> Result<Parsed, ProtocolError> {
        let longest = LONGEST_LINE.min(self.most_bytes);
        let new = bytes.get(self.at..).unwrap_or_default();
        let Some(end) = new.iter().position(|byte| *byte == b'\n').map(|more| self.at + more) else {
            self.at = bytes.len();
            return if bytes.len() > longest { Err(ProtocolError::LongLine) } else { Ok(Parsed::Incomplete) };
        };
        if end > longest {
            return Err(ProtocolError::LongLine);
        }
        let typed = inline::split(&bytes[..end], &mut self.words)?;
        if self.words.is_empty() {
            self.at = 0;
            return Ok(Parsed::Nothing(end + 1));
        }
        self.typed = Some(typed);
        Ok(Parsed::Command(end + 1))
    }

    /// The command that was found in these bytes.
    pub(super) fn command<'a>(&'a self, bytes: &'a [u8]) -> Command<'a> {
        Command { bytes: self.typed.as_deref().unwrap_or(bytes), words: &self.words }
    }

    /// Forgets the command, for the next one.
    #[inline]
    pub(super) fn forget(&mut self) {
        self.words.clear();
        self.to_come = None;
        self.at = 0;
        self.typed = None;
    }
}

/// A length and how many bytes it and its line's end take. `Some(None)`: it goes on. `None`: it is none.
#[inline]
fn length(bytes: &[u8]) -> Option<Option<(i64, usize)>> {
    /// Any more do not fit into 64 bits.
    const MOST_DIGITS: usize = 18;
    let negative = bytes.first() == Some(&b'-');
    let digits = if negative { &bytes[1..] } else { bytes };
    let mut value = 0i64;
    for (index, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' if index < MOST_DIGITS => value = value * 10 + i64::from(byte - b'0'),
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
