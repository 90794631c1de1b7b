//! Whether a statement only reads, judged by its text.

use std::iter::Peekable;
use std::str::Bytes;

/// Whether a statement only reads.
///
/// Judged by its words, outside of comments and quotes, for any database. What is not surely a read is a
/// write: several statements of which one writes, `SELECT ... FOR UPDATE` and its kin, which lock,
/// `SELECT ... INTO`, `PRAGMA`, `EXPLAIN` of a write, and text that databases read differently, such as
/// `'\''`. A function that writes cannot be seen from outside: name the class of such statements.
///
/// ```
/// use sluicegate::pool::StatementKind;
///
/// assert_eq!(StatementKind::of("SELECT 1 -- DELETE"), StatementKind::Read);
/// assert_eq!(StatementKind::of("WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone"), StatementKind::Write);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// It only reads.
    Read,
    /// It writes, locks, or cannot be judged.
    Write,
}

/// What a statement that reads begins with.
const BEGINS_READ: [&str; 7] = ["SELECT", "WITH", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC"];

/// What makes a write of a statement that begins like a read.
const WRITES: [&str; 5] = ["INSERT", "UPDATE", "DELETE", "MERGE", "INTO"];

/// Words that together lock what is read.
const LOCKS: [(&str, &str); 4] = [("FOR", "SHARE"), ("FOR", "KEY"), ("FOR", "NO"), ("LOCK", "IN")];

/// What may stand between `EXPLAIN` and the statement it explains.
const EXPLAIN_OPTIONS: [&str; 23] = [
    "ANALYZE",
    "VERBOSE",
    "COSTS",
    "SETTINGS",
    "GENERIC_PLAN",
    "BUFFERS",
    "WAL",
    "TIMING",
    "SUMMARY",
    "MEMORY",
    "FORMAT",
    "TEXT",
    "XML",
    "JSON",
    "YAML",
    "TREE",
    "TRADITIONAL",
    "QUERY",
    "PLAN",
    "ON",
    "OFF",
    "TRUE",
    "FALSE",
];

/// Where in a statement the words are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Begin,
    Explain,
    Body,
}

impl StatementKind {
    /// The kind of the statement with this text.
    pub fn of(sql: &str) -> Self {
        if reads(sql) { Self::Read } else { Self::Write }
    }
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

fn reads(sql: &str) -> bool {
    let (mut part, mut last, mut any) = (Part::Begin, "", false);
    for token in Tokens::of(sql) {
        match (token, part) {
            (Token::Unclear, _) => return false,
            (Token::Symbol(b';'), Part::Explain) => return false,
            (Token::Symbol(b';'), _) => (part, last) = (Part::Begin, ""),
            (Token::Symbol(b'('), Part::Begin) | (Token::Symbol(b'(' | b')' | b',' | b'='), Part::Explain) => {}
            (Token::Symbol(_), Part::Begin | Part::Explain) => return false,
            (Token::Symbol(_), Part::Body) => last = "",
            (Token::Word(word), Part::Begin | Part::Explain) if is_one_of(word, &BEGINS_READ) => {
                (part, any) = (Part::Body, true);
            }
            (Token::Word(word), Part::Begin) if is_one_of(word, &["EXPLAIN"]) => part = Part::Explain,
            (Token::Word(word), Part::Explain) if is_one_of(word, &EXPLAIN_OPTIONS) => {}
            (Token::Word(_), Part::Begin | Part::Explain) => return false,
            (Token::Word(word), Part::Body) => {
                let locks = |(first, second)| is_one_of(last, &[first]) && is_one_of(word, &[second]);
                if is_one_of(word, &WRITES) || LOCKS.into_iter().any(locks) {
                    return false;
                }
                last = word;
            }
        }
    }
    any && part != Part::Explain
}

enum Token<'s> {
    /// A word or a number.
    Word(&'s str),
    /// Anything else. A quoted text is one, too.
    Symbol(u8),
    /// What databases read differently, or what does not end.
    Unclear,
}

/// The words and symbols of a text, without its comments.
struct Tokens<'s> {
    text: &'s str,
    bytes: Peekable<Bytes<'s>>,
    at: usize,
}

impl<'s> Tokens<'s> {
    fn of(text: &'s str) -> Self {
        Self { text, bytes: text.bytes().peekable(), at: 0 }
    }

    fn bump(&mut self) -> Option<u8> {
        let byte = self.bytes.next();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn bump_if(&mut self, wanted: impl Fn(u8) -> bool) -> Option<u8> {
        if self.bytes.peek().is_some_and(|byte| wanted(*byte)) { self.bump() } else { None }
    }

    fn word(&mut self, start: usize) -> Token<'s> {
        while self.bump_if(in_word).is_some() {}
        self.text.get(start..self.at).map_or(Token::Unclear, Token::Word)
    }

    /// The rest of a quoted text. A doubled quote ends one text and begins another, which is as good. A
    /// backslash before the quote makes it a part of the text for some databases, and not for others.
    fn quoted(&mut self, quote: u8) -> Token<'s> {
        let mut last = 0;
        while let Some(byte) = self.bump() {
            if byte == quote {
                return if last == b'\\' { Token::Unclear } else { Token::Symbol(quote) };
            }
            last = byte;
        }
        Token::Unclear
    }

    /// The rest of a comment that ends with its line. A carriage return alone ends the line for some
    /// databases, and not for others.
    fn line_comment(&mut self) -> Result<(), Token<'s>> {
        while self.bump_if(|byte| byte != b'\n' && byte != b'\r').is_some() {}
        match (self.bump(), self.bytes.peek()) {
            (Some(b'\r'), Some(b'\n') | None) | (Some(b'\n') | None, _) => Ok(()),
            _ => Err(Token::Unclear),
        }
    }

    /// The rest of a comment in `/* */`. Some databases nest them; MySQL runs what is in `/*! */`, MariaDB
    /// also what is in `/*M! */`.
    fn comment(&mut self) -> Result<(), Token<'s>> {
        let mut last = 0;
        self.bump_if(|byte| byte == b'M');
        if self.bump_if(|byte| byte == b'!').is_some() {
            return Err(Token::Unclear);
        }
        while let Some(byte) = self.bump() {
            match (last, byte) {
                (b'*', b'/') => return Ok(()),
                (b'/', b'*') => return Err(Token::Unclear),
                _ => last = byte,
            }
        }
        Err(Token::Unclear)
    }
}

/// A space to databases, though not to Rust.
const VERTICAL_TAB: u8 = 0x0b;

const fn in_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

impl<'s> Iterator for Tokens<'s> {
    type Item = Token<'s>;

    fn next(&mut self) -> Option<Token<'s>> {
        loop {
            let start = self.at;
            return Some(match self.bump()? {
                byte if byte.is_ascii_whitespace() || byte == VERTICAL_TAB => continue,
                byte if in_word(byte) => self.word(start),
                quote @ (b'\'' | b'"' | b'`') => self.quoted(quote),
                b'-' if self.bump_if(|byte| byte == b'-').is_some() => match self.line_comment() {
                    Ok(()) => continue,
                    Err(unclear) => unclear,
                },
                b'/' if self.bump_if(|byte| byte == b'*').is_some() => match self.comment() {
                    Ok(()) => continue,
                    Err(unclear) => unclear,
                },
                // An operator on JSON, or a comment of MySQL.
                b'#' if self.bump_if(|byte| matches!(byte, b'>' | b'-')).is_none() => Token::Unclear,
                // `$1` is a parameter; `$$` and `$tag$` are quotes of PostgreSQL.
                b'$' => {
                    while self.bump_if(in_word).is_some() {}
                    if self.bump_if(|byte| byte == b'$').is_some() { Token::Unclear } else { Token::Symbol(b'$') }
                }
                symbol => Token::Symbol(symbol),
            });
        }
    }
}
