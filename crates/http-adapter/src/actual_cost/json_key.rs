//! Compares a JSON object key with a wanted name, byte by byte.

/// Comparison state of one key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyMatch {
    /// Matched bytes of the wanted name.
    matched: usize,
    differs: bool,
    escape: EscapeState,
    /// High surrogate of a character written as two escapes.
    high_surrogate: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default)]
enum EscapeState {
    #[default]
    None,
    /// After a backslash.
    Backslash,
    /// After `\u` and this many digits.
    Unicode { digits: u8, unit: u16 },
}

/// Result of reading a byte of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyResult {
    /// The key continues.
    Incomplete,
    /// The key ended; true if it equals the wanted name.
    Complete(bool),
    /// Not valid JSON.
    Invalid,
}

impl KeyMatch {
    pub(super) fn read(&mut self, byte: u8, wanted: &[u8]) -> KeyResult {
        match self.escape {
            EscapeState::None => match byte {
                b'"' => {
                    let same = !self.differs && self.high_surrogate.is_none() && self.matched == wanted.len();
                    return KeyResult::Complete(same);
                }
                b'\\' => self.escape = EscapeState::Backslash,
                0..=0x1f => return KeyResult::Invalid,
                byte => self.compare(&[byte], wanted),
            },
            EscapeState::Backslash => {
                self.escape = EscapeState::None;
                match byte {
                    b'"' | b'\\' | b'/' => self.compare(&[byte], wanted),
                    b'b' => self.compare(b"\x08", wanted),
                    b'f' => self.compare(b"\x0c", wanted),
                    b'n' => self.compare(b"\n", wanted),
                    b'r' => self.compare(b"\r", wanted),
                    b't' => self.compare(b"\t", wanted),
                    b'u' => self.escape = EscapeState::Unicode { digits: 0, unit: 0 },
                    _ => return KeyResult::Invalid,
                }
            }
            EscapeState::Unicode { digits, unit } => {
                let Some(digit) = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok()) else {
                    return KeyResult::Invalid;
                };
                let unit = unit << 4 | digit;
                self.escape =
                    if digits < 3 { EscapeState::Unicode { digits: digits + 1, unit } } else { EscapeState::None };
                if digits == 3 {
                    self.compare_unit(unit, wanted);
                }
            }
        }
        KeyResult::Incomplete
    }

    /// Compares the next bytes of the key.
    fn compare(&mut self, bytes: &[u8], wanted: &[u8]) {
        let goes_on = wanted.get(self.matched..).is_some_and(|rest| rest.starts_with(bytes));
        if goes_on && self.high_surrogate.take().is_none() {
            self.matched += bytes.len();
        } else {
            self.differs = true;
        }
    }

    /// Compares the next UTF-16 unit of the key.
    fn compare_unit(&mut self, unit: u16, wanted: &[u8]) {
        if self.high_surrogate.is_none() && matches!(unit, 0xd800..=0xdbff) {
            self.high_surrogate = Some(unit);
            return;
        }
        let units = [self.high_surrogate.take().unwrap_or(unit), unit];
        let units = if units[0] == unit { &units[1..] } else { &units[..] };
        let mut chars = char::decode_utf16(units.iter().copied());
        match (chars.next(), chars.next()) {
            (Some(Ok(char)), None) => self.compare(char.encode_utf8(&mut [0; 4]).as_bytes(), wanted),
            _ => self.differs = true,
        }
    }
}
