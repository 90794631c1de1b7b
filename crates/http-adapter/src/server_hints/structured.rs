//! Parser for the subset of structured fields (RFC 9651) used by rate limit headers: lists of items and
//! dictionaries, both with parameters.
//!
//! Both are parsed into the same members, because `RateLimit` is a list in one draft and a dictionary in
//! another. As the standard requires, a field with a syntax error is ignored entirely.

use std::iter::Peekable;
use std::str::Bytes;

/// One member of a list or dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The item of a list, or the key of a dictionary.
    pub(super) name: String,
    /// The value of a dictionary key.
    pub(super) value: Option<String>,
    /// The parameters in order.
    pub(super) params: Vec<(String, String)>,
}

impl Member {
    /// Returns a parameter; the last one wins if the name is repeated.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().rfind(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// Parses the members of a field; empty on a syntax error.
pub(super) fn members(field: &str) -> Vec<Member> {
    let mut reader = FieldParser(field.bytes().peekable());
    reader.members().unwrap_or_default()
}

struct FieldParser<'f>(Peekable<Bytes<'f>>);

impl FieldParser<'_> {
    fn members(&mut self) -> Option<Vec<Member>> {
        let mut members = Vec::new();
        self.skip_space();
        while self.0.peek().is_some() {
            members.push(self.member()?);
            self.skip_space();
            match self.0.next() {
                None => break,
                Some(b',') => self.skip_space(),
                Some(_) => return None,
            }
            // A trailing comma is an error.
            self.0.peek()?;
        }
        Some(members)
    }

    fn member(&mut self) -> Option<Member> {
        let name = self.item()?;
        let value = if self.next_is(b'=') { Some(self.item()?) } else { None };
        let mut params = Vec::new();
        while self.next_is(b';') {
            self.skip_space();
            let key = self.word()?;
            // A parameter without a value is true.
            let value = if self.next_is(b'=') { self.item()? } else { "?1".to_owned() };
            params.push((key, value));
        }
        Some(Member { name, value, params })
    }

    /// A string without its quotes, or a number, token, byte sequence or boolean as written.
    fn item(&mut self) -> Option<String> {
        if self.next_is(b'"') { self.string_tail() } else { self.word() }
    }

    fn string_tail(&mut self) -> Option<String> {
        let mut text = String::new();
        loop {
            match self.0.next()? {
                b'"' => return Some(text),
                b'\\' => match self.0.next()? {
                    escaped @ (b'"' | b'\\') => text.push(char::from(escaped)),
                    _ => return None,
                },
                plain @ b' '..=b'~' => text.push(char::from(plain)),
                _ => return None,
            }
        }
    }

    fn word(&mut self) -> Option<String> {
        let belongs = |byte: &u8| byte.is_ascii_graphic() && !b"\"(),;=<>@[]{}\\".contains(byte);
        let mut text = String::new();
        // The padding of a byte sequence is part of it.
        let bytes_follow = self.0.peek() == Some(&b':');
        while let Some(byte) = self.0.next_if(|byte| belongs(byte) || (bytes_follow && *byte == b'=')) {
            text.push(char::from(byte));
        }
        (!text.is_empty()).then_some(text)
    }

    fn next_is(&mut self, expected: u8) -> bool {
        self.0.next_if_eq(&expected).is_some()
    }

    fn skip_space(&mut self) {
        while self.0.next_if(|byte| matches!(byte, b' ' | b'\t')).is_some() {}
    }
}
