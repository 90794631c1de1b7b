//! Finds a number in chunked JSON without buffering it.
//!
//! Only objects on the path to the field are parsed; other values are skipped by their brackets and quotes.
//! Memory use is constant, however large, deep or broken the document is. If a name is repeated, the last
//! one wins, as in other JSON parsers.

use super::json_key::{KeyMatch, KeyResult};
use super::number::NumberBuffer;

/// A JSON field path and the scan state of the document.
#[derive(Clone, Debug)]
pub(super) struct JsonField {
    /// Names from the outermost object to the innermost.
    path: Vec<String>,
    /// Number of path names matched by the currently open objects.
    depth: usize,
    state: ScanState,
    /// Value found in the current document.
    current: Option<u64>,
    /// Value of the last earlier document that had the field.
    previous: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum ScanState {
    /// Expects a value, on the path or not.
    Value {
        wanted: bool,
    },
    /// Expects a name, or the end of an empty object.
    Key {
        first: bool,
    },
    InKey(KeyMatch),
    Colon {
        wanted: bool,
    },
    /// Inside the wanted number.
    Number(NumberBuffer),
    /// Inside another scalar without quotes.
    Scalar,
    /// Inside a skipped value, at this bracket depth.
    Skipped {
        depth: u64,
        string: Option<StringState>,
    },
    AfterValue,
    /// The input is not JSON.
    Invalid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringState {
    Text,
    /// After a backslash.
    Escape,
}

/// Result of scanning a byte: consumed, or to be scanned again in the new state.
#[derive(PartialEq, Eq)]
enum ByteResult {
    Consumed,
    Retry,
}

impl JsonField {
    pub(super) const fn new(path: Vec<String>) -> Self {
        Self { path, depth: 0, state: ScanState::Value { wanted: true }, current: None, previous: None }
    }

    pub(super) fn path(&self) -> &[String] {
        &self.path
    }

    /// Returns the value from the last document that has the field.
    pub(super) fn value(&self) -> Option<u64> {
        let here = match &self.state {
            // A bare number at the top level has no terminator.
            ScanState::Number(digits) if self.depth == 0 => digits.parse(),
            _ => self.current,
        };
        here.or(self.previous)
    }

    /// Starts the next document.
    pub(super) fn next_document(&mut self) {
        self.previous = self.value();
        self.current = None;
        self.depth = 0;
        self.state = ScanState::Value { wanted: true };
    }

    pub(super) fn read(&mut self, data: &[u8]) {
        for &byte in data {
            if matches!(self.state, ScanState::Invalid) {
                return;
            }
            while self.scan_byte(byte) == ByteResult::Retry {}
        }
    }

    fn scan_byte(&mut self, byte: u8) -> ByteResult {
        match &mut self.state {
            ScanState::Skipped { depth, string } => {
                if !skip_byte(depth, string, byte) {
                    self.state = ScanState::AfterValue;
                }
            }
            ScanState::Number(digits) if NumberBuffer::accepts(byte) => digits.push(byte),
            ScanState::Number(digits) => {
                self.current = digits.parse();
                self.state = ScanState::AfterValue;
                return ByteResult::Retry;
            }
            ScanState::Scalar if !matches!(byte, b',' | b'}' | b']') && !is_space(byte) => {}
            ScanState::Scalar => {
                self.state = ScanState::AfterValue;
                return ByteResult::Retry;
            }
            ScanState::InKey(key) => {
                // Keys are parsed only in objects on the path.
                let wanted = self.path.get(self.depth.wrapping_sub(1)).map_or(&[][..], |name| name.as_bytes());
                match key.read(byte, wanted) {
                    KeyResult::Incomplete => {}
                    KeyResult::Invalid => self.state = ScanState::Invalid,
                    KeyResult::Complete(wanted) => {
                        if wanted {
                            // A repeated name overrides the earlier value.
                            self.current = None;
                        }
                        self.state = ScanState::Colon { wanted };
                    }
                }
            }
            ScanState::AfterValue if self.depth == 0 && !is_space(byte) => {
                self.next_document();
                return ByteResult::Retry;
            }
            _ if is_space(byte) => {}
            ScanState::Value { wanted } => {
                let wanted = *wanted;
                self.state = self.begin_value(byte, wanted);
            }
            ScanState::Colon { wanted } if byte == b':' => self.state = ScanState::Value { wanted: *wanted },
            ScanState::Key { .. } if byte == b'"' => self.state = ScanState::InKey(KeyMatch::default()),
            ScanState::AfterValue if byte == b',' => self.state = ScanState::Key { first: false },
            ScanState::AfterValue | ScanState::Key { first: true } if byte == b'}' => {
                self.depth = self.depth.saturating_sub(1);
                self.state = ScanState::AfterValue;
            }
            ScanState::AfterValue | ScanState::Key { .. } | ScanState::Colon { .. } | ScanState::Invalid => {
                self.state = ScanState::Invalid;
            }
        }
        ByteResult::Consumed
    }

    /// Starts a value with this byte.
    fn begin_value(&mut self, byte: u8, wanted: bool) -> ScanState {
        let here = wanted && self.depth == self.path.len();
        match byte {
            b'{' if wanted && !here => {
                self.depth += 1;
                ScanState::Key { first: true }
            }
            b'-' | b'0'..=b'9' if here => {
                let mut digits = NumberBuffer::default();
                digits.push(byte);
                ScanState::Number(digits)
            }
            b'{' | b'[' => ScanState::Skipped { depth: 1, string: None },
            b'"' => ScanState::Skipped { depth: 0, string: Some(StringState::Text) },
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => ScanState::Scalar,
            _ => ScanState::Invalid,
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Skips a byte of a value; returns true if the value continues.
fn skip_byte(depth: &mut u64, string: &mut Option<StringState>, byte: u8) -> bool {
    match (*string, byte) {
        (Some(StringState::Escape), _) => *string = Some(StringState::Text),
        (Some(StringState::Text), b'\\') => *string = Some(StringState::Escape),
        (Some(StringState::Text), b'"') => *string = None,
        (Some(StringState::Text), _) => {}
        (None, b'"') => *string = Some(StringState::Text),
        (None, b'{' | b'[') => *depth = depth.saturating_add(1),
        (None, b'}' | b']') => *depth = depth.saturating_sub(1),
        (None, _) => {}
    }
    *depth > 0 || string.is_some()
}
