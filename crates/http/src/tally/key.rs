//! Comparing a field's name in JSON with the one that is looked for, byte by byte.

/// How far a name has been read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyMatch {
    /// How many bytes of the wanted name have been found.
    matched: usize,
    differs: bool,
    escape: Escape,
    /// The first half of a character that is written as two escapes.
    high: Option<u16>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Escape {
    #[default]
    None,
    /// After a backslash.
    Begun,
    /// After `\u`, so many digits.
    Unicode { digits: u8, unit: u16 },
}

/// What a byte of a name did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyRead {
    /// The name goes on.
    GoesOn,
    /// It has ended, and is the one that is looked for or not.
    Ended(bool),
    /// That is no JSON.
    Bad,
}

impl KeyMatch {
    pub(super) fn read(&mut self, byte: u8, wanted: &[u8]) -> KeyRead {
        match self.escape {
            Escape::None => match byte {
                b'"' => {
                    let same = !self.differs && self.high.is_none() && self.matched == wanted.len();
                    return KeyRead::Ended(same);
                }
                b'\\' => self.escape = Escape::Begun,
                0..=0x1f => return KeyRead::Bad,
                byte => self.found(&[byte], wanted),
            },
            Escape::Begun => {
                self.escape = Escape::None;
                match byte {
                    b'"' | b'\\' | b'/' => self.found(&[byte], wanted),
                    b'b' => self.found(b"\x08", wanted),
                    b'f' => self.found(b"\x0c", wanted),
                    b'n' => self.found(b"\n", wanted),
                    b'r' => self.found(b"\r", wanted),
                    b't' => self.found(b"\t", wanted),
                    b'u' => self.escape = Escape::Unicode { digits: 0, unit: 0 },
                    _ => return KeyRead::Bad,
                }
            }
            Escape::Unicode { digits, unit } => {
                let Some(digit) = char::from(byte).to_digit(16).and_then(|digit| u16::try_from(digit).ok()) else {
                    return KeyRead::Bad;
                };
                let unit = unit << 4 | digit;
                self.escape = if digits < 3 { Escape::Unicode { digits: digits + 1, unit } } else { Escape::None };
                if digits == 3 {
                    self.found_unit(unit, wanted);
                }
            }
        }
        KeyRead::GoesOn
    }

    /// These bytes are next in the name.
    fn found(&mut self, bytes: &[u8], wanted: &[u8]) {
        let goes_on = wanted.get(self.matched..).is_some_and(|rest| rest.starts_with(bytes));
        if goes_on && self.high.take().is_none() {
            self.matched += bytes.len();
        } else {
            self.differs = true;
        }
    }

    /// A character, or half of one, is next in the name.
    fn found_unit(&mut self, unit: u16, wanted: &[u8]) {
        if self.high.is_none() && matches!(unit, 0xd800..=0xdbff) {
            self.high = Some(unit);
            return;
        }
        let units = [self.high.take().unwrap_or(unit), unit];
        let units = if units[0] == unit { &units[1..] } else { &units[..] };
        let mut chars = char::decode_utf16(units.iter().copied());
        match (chars.next(), chars.next()) {
            (Some(Ok(char)), None) => self.found(char.encode_utf8(&mut [0; 4]).as_bytes(), wanted),
            _ => self.differs = true,
        }
    }
}
