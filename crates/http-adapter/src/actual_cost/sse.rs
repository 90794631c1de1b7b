//! Incremental parser for server-sent events.

/// Parser state of an event stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct SseParser {
    line: LineState,
    /// True if the last line ended with a carriage return; a following line feed belongs to it.
    after_cr: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineState {
    /// Number of bytes of `data:` matched so far.
    Name(usize),
    /// An optional space follows, which is not part of the data.
    AfterName,
    Data,
    /// A field other than data.
    Other,
}

/// Part of an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SsePart<'a> {
    /// A chunk of an event's data.
    Data(&'a [u8]),
    /// End of an event.
    End,
}

const DATA_FIELD: &[u8] = b"data:";

impl Default for SseParser {
    fn default() -> Self {
        Self { line: LineState::Name(0), after_cr: false }
    }
}

impl SseParser {
    /// Parses a chunk of the stream and reports its parts.
    pub(super) fn read(&mut self, mut rest: &[u8], mut report: impl FnMut(SsePart<'_>)) {
        while let Some(&byte) = rest.first() {
            let after_return = std::mem::replace(&mut self.after_cr, byte == b'\r');
            if matches!(byte, b'\n' | b'\r') {
                if !(byte == b'\n' && after_return) {
                    match self.line {
                        LineState::Name(0) => report(SsePart::End),
                        // Data lines of one event are joined by a newline.
                        _ if self.has_data() => report(SsePart::Data(b"\n")),
                        _ => {}
                    }
                    self.line = LineState::Name(0);
                }
                rest = &rest[1..];
                continue;
            }
            let line = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len());
            let (line, tail) = rest.split_at(line);
            self.read_line(line, &mut report);
            rest = tail;
        }
    }

    const fn has_data(&self) -> bool {
        matches!(self.line, LineState::Data | LineState::AfterName)
    }

    /// Parses a chunk of one line.
    fn read_line(&mut self, mut line: &[u8], report: &mut impl FnMut(SsePart<'_>)) {
        while let Some((&byte, rest)) = line.split_first() {
            match self.line {
                LineState::Name(read) if DATA_FIELD[read] == byte => {
                    self.line =
                        if read + 1 == DATA_FIELD.len() { LineState::AfterName } else { LineState::Name(read + 1) };
                }
                LineState::Name(_) => self.line = LineState::Other,
                LineState::AfterName => {
                    self.line = LineState::Data;
                    if byte != b' ' {
                        continue;
                    }
                }
                LineState::Data => return report(SsePart::Data(line)),
                LineState::Other => return,
            }
            line = rest;
        }
    }
}
