//! Text in quotes, as conditions and attributes write it.
//!
//! `'text'` or `"text"`, with the escapes of CEL: `\\`, `\'`, `\"`, `\n`, `\r`, `\t`, `\xHH`, `\uHHHH`.
//! `r'text'` takes backslashes as they are, which is handy for patterns.

use std::fmt;

/// What is wrong with a quoted text, and where.
#[derive(Debug)]
pub(super) struct QuoteError {
    /// Byte offset from the start of the text read.
    pub(super) at: usize,
    /// Length of the faulty part.
    pub(super) len: usize,
    pub(super) message: String,
}

/// Whether a quoted text starts here.
pub(super) fn starts_quoted(text: &str) -> bool {
    matches!(text.strip_prefix('r').unwrap_or(text).bytes().next(), Some(b'\'' | b'"'))
}

/// Reads the quoted text at the start of `text`; also returns how many bytes it took.
pub(super) fn read_quoted(text: &str) -> Result<(String, usize), QuoteError> {
    let raw = text.starts_with('r');
    let open = usize::from(raw);
    let mut chars = text[open..].char_indices().map(|(at, c)| (at + open, c));
    let quote = match chars.next() {
        Some((_, quote @ ('\'' | '"'))) => quote,
        _ => {
            let message = "text must be in quotes, such as 'vip'".to_owned();
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
                    _ => format!(r"write \\{escape} for a backslash, or r'...' to take all of them as they are"),
                };
                let message = format!(r"unknown escape \{}: {remedy}", escape.escape_debug());
                return Err(QuoteError { at, len: 1 + escape.len_utf8(), message });
            }
        }
    }
    let message = format!("text without end: close it with {quote}");
    Err(QuoteError { at: 0, len: text.len(), message })
}

/// Writes a text so that [`read_quoted`] reads it back.
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
    fn escapes_are_understood() {
        assert_eq!(read_quoted(r"'a\'b\\\x41\u00e9' rest").unwrap(), ("a'b\\A\u{e9}".to_owned(), 18));
        assert_eq!(read_quoted(r"r'\d+'").unwrap().0, r"\d+");
        for (text, message) in [
            (r"'\d'", r"write \\d"),
            ("'abc", "close it with '"),
            (r"'abc\", "close it"),
            ("abc", "in quotes"),
            ("", "in quotes"),
            ("r", "in quotes"),
            (r"'\ud800'", "four hexadecimal"),
        ] {
            let error = read_quoted(text).unwrap_err();
            assert!(error.message.contains(message), "{text}: {}", error.message);
            assert!(error.at + error.len <= text.len(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(text: String) {
            let written = Quoted(&text).to_string();
            prop_assert!(!written.chars().any(char::is_control));
            let (read, taken) = read_quoted(&written).unwrap();
            prop_assert_eq!(taken, written.len());
            prop_assert_eq!(read, text);
        }

        #[test]
        fn nothing_panics(text: String, quoted in r#"r?['"](\\.|.){0,8}"#) {
            let _ = read_quoted(&text);
            let _ = read_quoted(&quoted);
        }
    }
}
