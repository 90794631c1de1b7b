//! Classifies statements as reads or writes by their text.

use std::iter::Peekable;
use std::str::Bytes;

/// Kind of a statement: read or write.
///
/// Determined from the keywords outside comments and quotes, for any database. Every statement that is not certainly a
/// read counts as a write: several statements with a write among them, locking reads such as `SELECT ... FOR UPDATE`,
/// `SELECT ... INTO`, `PRAGMA`, `EXPLAIN` of a write, and text that databases parse differently, such as `'\''`. A
/// function that writes cannot be detected: set the class of such statements explicitly.
///
/// ```
/// use sluicegate::bulkhead::StatementKind;
///
/// assert_eq!(StatementKind::of("SELECT 1 -- DELETE"), StatementKind::Read);
/// assert_eq!(StatementKind::of("WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone"), StatementKind::Write);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementKind {
    /// Read-only.
    Read,
    /// Writes, locks, or is unclear.
    Write,
}

/// First keywords of read-only statements.
const BEGINS_READ: [&str; 7] = ["SELECT", "WITH", "VALUES", "TABLE", "SHOW", "DESCRIBE", "DESC"];

/// Keywords that make a statement a write even if it starts like a read.
const WRITES: [&str; 5] = ["INSERT", "UPDATE", "DELETE", "MERGE", "INTO"];

/// Keyword pairs of locking reads.
const LOCKS: [(&str, &str); 4] = [("FOR", "SHARE"), ("FOR", "KEY"), ("FOR", "NO"), ("LOCK", "IN")];

/// Keywords between `EXPLAIN` and the statement.
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

/// Part of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StatementPart {
    Begin,
    Explain,
    Body,
}

impl StatementKind {
    /// Returns the kind of the statement with this text.
    pub fn of(sql: &str) -> Self {
        if reads(sql) { Self::Read } else { Self::Write }
    }
}

fn is_one_of(word: &str, words: &[&str]) -> bool {
    words.iter().any(|known| known.eq_ignore_ascii_case(word))
}

fn reads(sql: &str) -> bool {
    let (mut part, mut last, mut any) = (StatementPart::Begin, "", false);
    for token in Tokens::of(sql) {
        match (token, part) {
            (Token::Unclear, _) => return false,
            (Token::Symbol(b';'), StatementPart::Explain) => return false,
            (Token::Symbol(b';'), _) => (part, last) = (StatementPart::Begin, ""),
            (Token::Symbol(b'('), StatementPart::Begin)
            | (Token::Symbol(b'(' | b')' | b',' | b'='), StatementPart::Explain) => {}
            (Token::Symbol(_), StatementPart::Begin | StatementPart::Explain) => return false,
            (Token::Symbol(_), StatementPart::Body) => last = "",
            (Token::Word(word), StatementPart::Begin | StatementPart::Explain) if is_one_of(word, &BEGINS_READ) => {
                (part, any) = (StatementPart::Body, true);
            }
            (Token::Word(word), StatementPart::Begin) if is_one_of(word, &["EXPLAIN"]) => part = StatementPart::Explain,
            (Token::Word(word), StatementPart::Explain) if is_one_of(word, &EXPLAIN_OPTIONS) => {}
            (Token::Word(_), StatementPart::Begin | StatementPart::Explain) => return false,
            (Token::Word(word), StatementPart::Body) => {
                let locks = |(first, second)| is_one_of(last, &[first]) && is_one_of(word, &[second]);
                if is_one_of(word, &WRITES) || LOCKS.into_iter().any(locks) {
                    return false;
                }
                last = word;
            }
        }
    }
    any && part != StatementPart::Explain
}

enum Token<'s> {
    /// A word or a number.
    Word(&'s str),
    /// Any other symbol. A quoted string is one symbol.
    Symbol(u8),
    /// Text that databases parse differently, or that is unterminated.
    Unclear,
}

/// Tokenizer that skips comments.
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
        while self.bump_if(is_word_byte).is_some() {}
        self.text.get(start..self.at).map_or(Token::Unclear, Token::Word)
    }

    /// Reads the remainder of a quoted string. A doubled quote counts as the end of one string and the start of another,
    /// which gives the same result. Whether a backslash escapes the quote depends on the database.
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

    /// Reads the remainder of a line comment. Whether a lone carriage return ends the line depends on the database.
    fn line_comment(&mut self) -> Result<(), Token<'s>> {
        while self.bump_if(|byte| byte != b'\n' && byte != b'\r').is_some() {}
        match (self.bump(), self.bytes.peek()) {
            (Some(b'\r'), Some(b'\n') | None) | (Some(b'\n') | None, _) => Ok(()),
            _ => Err(Token::Unclear),
        }
    }

    /// Reads the remainder of a `/* */` comment. Some databases nest them; MySQL executes the content of `/*! */`,
    /// MariaDB also that of `/*M! */`.
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

/// Whitespace in SQL, but not in Rust.
const VERTICAL_TAB: u8 = 0x0b;

const fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

impl<'s> Iterator for Tokens<'s> {
    type Item = Token<'s>;

    fn next(&mut self) -> Option<Token<'s>> {
        loop {
            let start = self.at;
            return Some(match self.bump()? {
                byte if byte.is_ascii_whitespace() || byte == VERTICAL_TAB => continue,
                byte if is_word_byte(byte) => self.word(start),
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
                    while self.bump_if(is_word_byte).is_some() {}
                    if self.bump_if(|byte| byte == b'$').is_some() { Token::Unclear } else { Token::Symbol(b'$') }
                }
                symbol => Token::Symbol(symbol),
            });
        }
    }
}
