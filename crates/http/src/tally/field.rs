//! Finding a number in JSON that comes in pieces, without keeping any of it.
//!
//! Only what lies on the way to the field is read as JSON; everything else is passed over by its brackets
//! and quotes. So memory stays the same however large, deep or broken the document is. Where a name comes
//! twice, the last one counts, as in other readers of JSON.

use super::amount::Digits;
use super::key::{KeyMatch, KeyRead};

/// A field that is looked for, and how far the document has been read.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// Names from the outermost object to the innermost.
    path: Vec<String>,
    /// How many of them lead to where the document is open now.
    open: usize,
    state: State,
    /// What this document has said so far.
    here: Option<u64>,
    /// What the last one said that had it.
    earlier: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A value is next, on the way to the field or not.
    Value {
        wanted: bool,
    },
    /// A name is next, or the object's end if it is empty.
    Key {
        first: bool,
    },
    InKey(KeyMatch),
    Colon {
        wanted: bool,
    },
    /// In the number that is looked for.
    Number(Digits),
    /// In something else that has no quotes or brackets.
    Scalar,
    /// In something else, so many brackets deep.
    Passed {
        depth: u64,
        string: Option<InString>,
    },
    AfterValue,
    /// That was no JSON.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InString {
    Text,
    /// After a backslash.
    Escape,
}

/// Whether a byte was read, or has only ended what came before it.
#[derive(PartialEq, Eq)]
enum Step {
    Read,
    Again,
}

impl Field {
    pub(super) const fn new(path: Vec<String>) -> Self {
        Self { path, open: 0, state: State::Value { wanted: true }, here: None, earlier: None }
    }

    pub(super) fn path(&self) -> &[String] {
        &self.path
    }

    /// What the last document that has it says.
    pub(super) fn found(&self) -> Option<u64> {
        let here = match &self.state {
            // A document that is nothing but a number ends without a sign.
            State::Number(digits) if self.open == 0 => digits.amount(),
            _ => self.here,
        };
        here.or(self.earlier)
    }

    /// What comes next is another document.
    pub(super) fn start_over(&mut self) {
        self.earlier = self.found();
        self.here = None;
        self.open = 0;
        self.state = State::Value { wanted: true };
    }

    pub(super) fn read(&mut self, data: &[u8]) {
        for &byte in data {
            if matches!(self.state, State::Lost) {
                return;
            }
            while self.step(byte) == Step::Again {}
        }
    }

    fn step(&mut self, byte: u8) -> Step {
        match &mut self.state {
            State::Passed { depth, string } => {
                if !is_inside(depth, string, byte) {
                    self.state = State::AfterValue;
                }
            }
            State::Number(digits) if Digits::may_have(byte) => digits.push(byte),
            State::Number(digits) => {
                self.here = digits.amount();
                self.state = State::AfterValue;
                return Step::Again;
            }
            State::Scalar if !matches!(byte, b',' | b'}' | b']') && !is_space(byte) => {}
            State::Scalar => {
                self.state = State::AfterValue;
                return Step::Again;
            }
            State::InKey(key) => {
                // Keys are only read in objects on the way.
                let wanted = self.path.get(self.open.wrapping_sub(1)).map_or(&[][..], |name| name.as_bytes());
                match key.read(byte, wanted) {
                    KeyRead::GoesOn => {}
                    KeyRead::Bad => self.state = State::Lost,
                    KeyRead::Ended(wanted) => {
                        if wanted {
                            // Whatever an earlier field of this name said.
                            self.here = None;
                        }
                        self.state = State::Colon { wanted };
                    }
                }
            }
            State::AfterValue if self.open == 0 && !is_space(byte) => {
                self.start_over();
                return Step::Again;
            }
            _ if is_space(byte) => {}
            State::Value { wanted } => {
                let wanted = *wanted;
                self.state = self.begin(byte, wanted);
            }
            State::Colon { wanted } if byte == b':' => self.state = State::Value { wanted: *wanted },
            State::Key { .. } if byte == b'"' => self.state = State::InKey(KeyMatch::default()),
            State::AfterValue if byte == b',' => self.state = State::Key { first: false },
            State::AfterValue | State::Key { first: true } if byte == b'}' => {
                self.open = self.open.saturating_sub(1);
                self.state = State::AfterValue;
            }
            State::AfterValue | State::Key { .. } | State::Colon { .. } | State::Lost => self.state = State::Lost,
        }
        Step::Read
    }

    /// A value begins with this byte.
    fn begin(&mut self, byte: u8, wanted: bool) -> State {
        let here = wanted && self.open == self.path.len();
        match byte {
            b'{' if wanted && !here => {
                self.open += 1;
                State::Key { first: true }
            }
            b'-' | b'0'..=b'9' if here => {
                let mut digits = Digits::default();
                digits.push(byte);
                State::Number(digits)
            }
            b'{' | b'[' => State::Passed { depth: 1, string: None },
            b'"' => State::Passed { depth: 0, string: Some(InString::Text) },
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => State::Scalar,
            _ => State::Lost,
        }
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Passes over a byte of a value. Answers whether the value goes on after it.
fn is_inside(depth: &mut u64, string: &mut Option<InString>, byte: u8) -> bool {
    match (*string, byte) {
        (Some(InString::Escape), _) => *string = Some(InString::Text),
        (Some(InString::Text), b'\\') => *string = Some(InString::Escape),
        (Some(InString::Text), b'"') => *string = None,
        (Some(InString::Text), _) => {}
        (None, b'"') => *string = Some(InString::Text),
        (None, b'{' | b'[') => *depth = depth.saturating_add(1),
        (None, b'}' | b']') => *depth = depth.saturating_sub(1),
        (None, _) => {}
    }
    *depth > 0 || string.is_some()
}
