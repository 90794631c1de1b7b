//! Text from strangers, made harmless.
//!
//! A line consists of visible ASCII characters and blanks only, whatever a client sends: it cannot end a line and begin
//! a forged one, end a quoted value, or give a terminal commands. All else is escaped, in each format's own way.

/// The most bytes of one value; what is longer is cut, and ends with [`CUT`].
pub(super) const LONGEST: usize = 2_048;
/// What stands behind a value that was cut.
pub(super) const CUT: &[u8] = b"...";

/// Whether a byte stands for itself within quotes: visible ASCII and the blank, but neither quote nor backslash.
const fn is_plain(byte: u8) -> bool {
    // Without branches, so that many bytes are looked at in one step.
    (byte >= b' ') & (byte <= b'~') & (byte != b'"') & (byte != b'\\')
}

/// Whether it does without quotes: not the blank either.
const fn is_bare(byte: u8) -> bool {
    is_plain(byte) & (byte != b' ')
}

/// The contents of a JSON string. What is not UTF-8 becomes U+FFFD.
pub(super) fn json(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, is_plain, |out, odd| {
        // A character of several bytes has no plain byte in it: it is never torn apart here.
        for chunk in odd.utf8_chunks() {
            chunk.valid().chars().for_each(|char| json_char(out, char));
            if !chunk.invalid().is_empty() {
                json_char(out, char::REPLACEMENT_CHARACTER);
            }
        }
    });
}

/// A value between the quotes of a common line; the bytes that need it become `\xHH`.
pub(super) fn quoted(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, is_plain, hex_bytes);
}

/// A value of a common line that stands without quotes.
pub(super) fn bare(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, is_bare, hex_bytes);
}

#[inline]
fn escape(out: &mut Vec<u8>, value: &[u8], is_plain: impl Fn(u8) -> bool, odd: impl Fn(&mut Vec<u8>, &[u8])) {
    let kept = cut(value);
    if kept.iter().fold(true, |all, &byte| all & is_plain(byte)) {
        out.extend_from_slice(kept);
    } else {
        let run_of = |bytes: &[u8], plain: bool| bytes.iter().position(|&byte| is_plain(byte) != plain);
        let mut rest = kept;
        while !rest.is_empty() {
            let (run, behind) = rest.split_at(run_of(rest, true).unwrap_or(rest.len()));
            out.extend_from_slice(run);
            let (run, behind) = behind.split_at(run_of(behind, false).unwrap_or(behind.len()));
            odd(out, run);
            rest = behind;
        }
    }
    if kept.len() < value.len() {
        out.extend_from_slice(CUT);
    }
}

/// As much as a line takes of a value, without tearing a character apart.
pub(super) fn cut(value: &[u8]) -> &[u8] {
    if value.len() <= LONGEST {
        return value;
    }
    let is_continued = |at: usize| value[at] & 0b1100_0000 == 0b1000_0000;
    // No character has more than three bytes behind its first; what has is none.
    let end = (LONGEST - 3..=LONGEST).rev().find(|&at| !is_continued(at)).unwrap_or(LONGEST);
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
