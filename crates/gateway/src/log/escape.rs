//! Text from strangers, made harmless.
//!
//! A line consists of visible ASCII characters and blanks only, whatever a client sends: it cannot end a line and begin
//! a forged one, end a quoted value, or give a terminal commands. All else is escaped, in each format's own way.

/// The most bytes of one value; what is longer is cut, and ends with [`CUT`].
pub(super) const LONGEST: usize = 2_048;
/// What stands behind a value that was cut.
pub(super) const CUT: &[u8] = b"...";

/// Which bytes stand for themselves.
type Plain = [bool; 256];

/// Within quotes: visible ASCII and the blank, but neither the quote nor the backslash.
const QUOTED: Plain = {
    let mut plain = [false; 256];
    let mut byte = b' ';
    while byte <= b'~' {
        plain[byte as usize] = byte != b'"' && byte != b'\\';
        byte += 1;
    }
    plain
};

/// Without quotes: not the blank either.
const BARE: Plain = {
    let mut plain = QUOTED;
    plain[b' ' as usize] = false;
    plain
};

/// The contents of a JSON string. What is not UTF-8 becomes U+FFFD.
pub(super) fn json(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, &QUOTED, |out, odd| {
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
    escape(out, value, &QUOTED, hex_bytes);
}

/// A value of a common line that stands without quotes.
pub(super) fn bare(out: &mut Vec<u8>, value: &[u8]) {
    escape(out, value, &BARE, hex_bytes);
}

fn escape(out: &mut Vec<u8>, value: &[u8], plain: &Plain, odd: impl Fn(&mut Vec<u8>, &[u8])) {
    let is_plain = |byte: &u8| plain[usize::from(*byte)];
    let whole = value;
    let value = cut(whole);
    let mut rest = value;
    while !rest.is_empty() {
        let (run, behind) = rest.split_at(rest.iter().position(|byte| !is_plain(byte)).unwrap_or(rest.len()));
        out.extend_from_slice(run);
        let (run, behind) = behind.split_at(behind.iter().position(is_plain).unwrap_or(behind.len()));
        odd(out, run);
        rest = behind;
    }
    if value.len() < whole.len() {
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
