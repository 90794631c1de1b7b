//! Inline commands, split into words as in Redis.
//!
//! Words are separated by white space. In double quotes `\n`, `\r`, `\t`, `\b`, `\a`, `\xHH` and `\` before any
//! other character are unescaped; in single quotes only `\'` is. A closing quote ends its word.

use super::parse::{MAX_WORDS, ProtocolError, WordRanges};

/// Splits a line into words. Returns the unescaped bytes that the word ranges refer to.
pub(super) fn split_words(line: &[u8], words: &mut WordRanges) -> Result<Vec<u8>, ProtocolError> {
    let mut text = Vec::with_capacity(line.len());
    let mut rest = line.trim_ascii_start();
    while let Some(first) = rest.first() {
        if words.len() == MAX_WORDS {
            return Err(ProtocolError::LongLine);
        }
        let start = text.len();
        let taken = match first {
            b'"' | b'\'' => quoted_word(rest, *first, &mut text)?,
            _ => bare_word(rest, &mut text)?,
        };
        words.push((start as u32, text.len() as u32));
        rest = rest.get(taken..).unwrap_or_default().trim_ascii_start();
    }
    Ok(text)
}

/// A word that starts without a quote; quotes may follow within it.
fn bare_word(bytes: &[u8], text: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    for (index, byte) in bytes.iter().enumerate() {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' | 0 => return Ok(index.max(1)),
            b'"' | b'\'' => return Ok(index + quoted_word(&bytes[index..], *byte, text)?),
            byte => text.push(*byte),
        }
    }
    Ok(bytes.len())
}

/// A quoted section up to the closing quote, which must end the word.
fn quoted_word(bytes: &[u8], quote: u8, text: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    let mut at = 1;
    loop {
        match (bytes.get(at..).unwrap_or_default(), quote) {
            ([], _) => return Err(ProtocolError::Quotes),
            ([b'\\', b'x', high, low, ..], b'"') if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                text.push(hex_digit(*high) << 4 | hex_digit(*low));
                at += 4;
            }
            ([b'\\', escaped, ..], b'"') => {
                text.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            ([b'\\', b'\'', ..], b'\'') => {
                text.push(b'\'');
                at += 2;
            }
            ([byte, after @ ..], _) if *byte == quote => {
                return match after.first() {
                    Some(next) if !next.is_ascii_whitespace() => Err(ProtocolError::Quotes),
                    _ => Ok(at + 1),
                };
            }
            ([byte, ..], _) => {
                text.push(*byte);
                at += 1;
            }
        }
    }
}

/// The value of a hexadecimal digit.
const fn hex_digit(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.saturating_sub(b'A') + 10,
    }
}
