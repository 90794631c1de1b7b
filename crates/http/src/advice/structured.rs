//! Structured fields (RFC 9651), as far as rate limits are written in them: lists of items and
//! dictionaries, both with parameters.
//!
//! Both are read into the same members, as `RateLimit` is a list in one draft and a dictionary in
//! another. As the standard demands, a field with one fault in it is no field at all.

use std::iter::Peekable;
use std::str::Bytes;

/// One member of a list or dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// The item of a list, or the key of a dictionary.
    pub(super) name: String,
    /// The value of a dictionary's key.
    pub(super) value: Option<String>,
    /// The parameters, in their order.
    pub(super) params: Vec<(String, String)>,
}

impl Member {
    /// A parameter; of several with one name, the last counts.
    pub(super) fn param(&self, name: &str) -> Option<&str> {
        self.params.iter().rfind(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// The members of a field, none if there is a fault in it.
pub(super) fn members(field: &str) -> Vec<Member> {
    let mut reader = Reader(field.bytes().peekable());
    reader.members().unwrap_or_default()
}

struct Reader<'f>(Peekable<Bytes<'f>>);

impl Reader<'_> {
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
            // Nothing follows the comma.
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

    /// A string without its quotes, or a number, token, byte sequence or truth value as it is written.
    fn item(&mut self) -> Option<String> {
        if self.next_is(b'"') { self.rest_of_string() } else { self.word() }
    }

    fn rest_of_string(&mut self) -> Option<String> {
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
        // The padding of a byte sequence belongs to it.
        let bytes_follow = self.0.peek() == Some(&b':');
        while let Some(byte) = self.0.next_if(|byte| belongs(byte) || (bytes_follow && *byte == b'=')) {
            text.push(char::from(byte));
        }
        (!text.is_empty()).then_some(text)
    }

    fn next_is(&mut self, wanted: u8) -> bool {
        self.0.next_if_eq(&wanted).is_some()
    }

    fn skip_space(&mut self) {
        while self.0.next_if(|byte| matches!(byte, b' ' | b'\t')).is_some() {}
    }
}
