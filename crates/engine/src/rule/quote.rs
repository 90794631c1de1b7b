//! Quoted strings of conditions and attributes: parser and formatter.
//!
//! `'text'` or `"text"`, with the escapes of CEL: `\\`, `\'`, `\"`, `\n`, `\r`, `\t`, `\xHH`, `\uHHHH`.
//! `r'text'` is a raw string without escapes, useful for patterns.

use std::fmt;

/// Error of parsing a quoted string.
#[derive(Debug)]
pub(super) struct QuoteError {
    /// Byte offset from the start of the text.
    pub(super) at: usize,
    /// Length of the invalid part.
    pub(super) len: usize,
    pub(super) message: String,
}

/// True if a quoted string starts here.
pub(super) fn starts_quoted(text: &str) -> bool {
    matches!(text.strip_prefix('r').unwrap_or(text).bytes().next(), Some(b'\'' | b'"'))
}

/// Parses the quoted string at the start of `text`; also returns its length in bytes.
pub(super) fn read_quoted(text: &str) -> Result<(String, usize), QuoteError> {
    let raw = text.starts_with('r');
    let open = usize::from(raw);
    let mut chars = text[open..].char_indices().map(|(at, c)| (at + open, c));
    let quote = match chars.next() {
        Some((_, quote @ ('\'' | '"'))) => quote,
        _ => {
            let message = "a string must be quoted, such as 'vip'".to_owned();
            return Err(QuoteError { at: 0, len: text.chars().next().map_or(0, char::len_utf8), message });
        }
    };
    let mut value = String::new();
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Ok((value, at + 1));
        }
        if c != '\\' || raw {
            value.push(c);
            continue;
        }
        let Some((_, escape)) = chars.next() else { break };
        let mut code = |digits: usize| {
            let mut code = 0;
            for _ in 0..digits {
                code = code * 16 + chars.next()?.1.to_digit(16)?;
            }
            char::from_u32(code)
        };
        let unescaped = match escape {
            '\\' | '\'' | '"' => Some(escape),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'x' => code(2),
            'u' => code(4),
            _ => None,
        };
        match unescaped {
            Some(c) => value.push(c),
            None => {
                let remedy = match escape {
                    'x' => r"write \xHH with two hexadecimal digits".to_owned(),
                    'u' => r"write \uHHHH with the four hexadecimal digits of a character".to_owned(),
                    _ => format!(r"write \\{escape} for a backslash, or r'...' for a raw string"),
                };
                let message = format!(r"unknown escape \{}: {remedy}", escape.escape_debug());
                return Err(QuoteError { at, len: 1 + escape.len_utf8(), message });
            }
        }
    }
    let message = format!("unterminated string: close it with {quote}");
    Err(QuoteError { at: 0, len: text.len(), message })
}

/// Formats a text so that [`read_quoted`] parses it back.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quote = if self.0.contains('\'') && !self.0.contains('"') { '"' } else { '\'' };
        write!(f, "{quote}")?;
        for c in self.0.chars() {
            match c {
                '\\' => f.write_str(r"\\")?,
                '\n' => f.write_str(r"\n")?,
                '\r' => f.write_str(r"\r")?,
                '\t' => f.write_str(r"\t")?,
                _ if c == quote => write!(f, r"\{c}")?,
                _ if c.is_control() => write!(f, r"\u{:04x}", u32::from(c))?,
                _ => write!(f, "{c}")?,
            }
        }
        write!(f, "{quote}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(read_quoted(r"'a\'b\\\x41\u00e9' rest").unwrap(), ("a'b\\A\u{e9}".to_owned(), 18));
        assert_eq!(read_quoted(r"r'\d+'").unwrap().0, r"\d+");
        for (text, message) in [
            (r"'\d'", r"write \\d"),
            ("'abc", "close it with '"),
            (r"'abc\", "close it"),
            ("abc", "must be quoted"),
            ("", "must be quoted"),
            ("r", "must be quoted"),
            (r"'\ud800'", "four hexadecimal"),
        ] {
            let error = read_quoted(text).unwrap_err();
            assert!(error.message.contains(message), "{text}: {}", error.message);
            assert!(error.at + error.len <= text.len(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn quoted_text_round_trips(text: String) {
            let written = Quoted(&text).to_string();
            prop_assert!(!written.chars().any(char::is_control));
            let (read, consumed) = read_quoted(&written).unwrap();
            prop_assert_eq!(consumed, written.len());
            prop_assert_eq!(read, text);
        }

        #[test]
        fn arbitrary_text_never_panics(text: String, quoted in r#"r?['"](\\.|.){0,8}"#) {
            let _ = read_quoted(&text);
            let _ = read_quoted(&quoted);
        }
    }
}
