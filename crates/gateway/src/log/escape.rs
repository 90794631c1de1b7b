//! Escaping of untrusted text.
//!
//! A line consists of printable ASCII and spaces only, whatever a client sends: a value cannot end the line and
//! forge another one, end a quoted value, or send control sequences to a terminal. All other bytes are escaped,
//! as each format requires.

/// Maximum bytes of one value; longer values are truncated and end with [`TRUNCATION_MARK`].
pub(super) const MAX_VALUE_BYTES: usize = 2_048;
/// Appended to a truncated value.
pub(super) const TRUNCATION_MARK: &[u8] = b"...";

/// True if a byte needs no escaping within quotes: printable ASCII and the space, except quote and backslash.
const fn is_plain(byte: u8) -> bool {
    // Branch-free, so that the compiler can vectorize it.
    (byte >= b' ') & (byte <= b'~') & (byte != b'"') & (byte != b'\\')
}

/// True if a byte also needs no quotes: as above, without the space.
const fn is_bare(byte: u8) -> bool {
    is_plain(byte) & (byte != b' ')
}

/// Writes the contents of a JSON string. Invalid UTF-8 becomes U+FFFD.
pub(super) fn json(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, is_plain, |out, run| {
        // A multi-byte character contains no plain byte, so it is never split here.
        for chunk in run.utf8_chunks() {
            chunk.valid().chars().for_each(|char| json_char(out, char));
            if !chunk.invalid().is_empty() {
                json_char(out, char::REPLACEMENT_CHARACTER);
            }
        }
    });
}

/// Writes a quoted value of the common format; bytes that need escaping become `\xHH`.
pub(super) fn quoted(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, is_plain, hex_bytes);
}

/// Writes an unquoted value of the common format.
pub(super) fn bare(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, is_bare, hex_bytes);
}

#[inline]
fn escape(out: &mut Vec<u8>, value: &[u8], is_plain: impl Fn(u8) -> bool, escape_run: impl Fn(&mut Vec<u8>, &[u8])) {
    let truncated = truncate(value);
    if truncated.iter().fold(true, |all, &byte| all & is_plain(byte)) {
        out.extend_from_slice(truncated);
    } else {
        let run_of = |bytes: &[u8], plain: bool| bytes.iter().position(|&byte| is_plain(byte) != plain);
        let mut remaining = truncated;
        while !remaining.is_empty() {
            let (run, tail) = remaining.split_at(run_of(remaining, true).unwrap_or(remaining.len()));
            out.extend_from_slice(run);
            let (run, tail) = tail.split_at(run_of(tail, false).unwrap_or(tail.len()));
            escape_run(out, run);
            remaining = tail;
        }
    }
    if truncated.len() < value.len() {
        out.extend_from_slice(TRUNCATION_MARK);
    }
}

/// Truncates a value to the maximum length, without splitting a character.
pub(super) fn truncate(value: &[u8]) -> &[u8] {
    if value.len() <= MAX_VALUE_BYTES {
        return value;
    }
    let is_continued = |at: usize| value[at] & 0b1100_0000 == 0b1000_0000;
    // No character has more than three continuation bytes.
    let end = (MAX_VALUE_BYTES - 3..=MAX_VALUE_BYTES).rev().find(|&at| !is_continued(at)).unwrap_or(MAX_VALUE_BYTES);
    &value[..end]
}

#[cold]
fn json_char(out: &mut Vec<u8>, char: char) {
    match char {
        '"' => out.extend_from_slice(br#"\""#),
        '\\' => out.extend_from_slice(br"\\"),
        char => {
            for unit in char.encode_utf16(&mut [0; 2]) {
                let [high, low] = unit.to_be_bytes();
                out.extend_from_slice(br"\u");
                hex_byte(out, high);
                hex_byte(out, low);
            }
        }
    }
}

#[cold]
fn hex_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.extend_from_slice(br"\x");
        hex_byte(out, byte);
    }
}

fn hex_byte(out: &mut Vec<u8>, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 0xf)]);
}
