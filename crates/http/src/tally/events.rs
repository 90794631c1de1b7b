//! The data of server-sent events, out of a stream that comes in pieces.

/// How far a stream of events has been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Events {
    line: Line,
    /// Whether the last line ended with a carriage return: a line feed after it belongs to it.
    returned: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// So many bytes of `data:` have been read.
    Name(usize),
    /// A space may follow, which is not part of the data.
    AfterName,
    Data,
    /// Something else than data.
    Other,
}

/// What a stream consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    /// A piece of an event's data.
    Data(&'a [u8]),
    /// The event has ended.
    End,
}

const NAME: &[u8] = b"data:";

impl Default for Events {
    fn default() -> Self {
        Self { line: Line::Name(0), returned: false }
    }
}

impl Events {
    /// Reads a piece of the stream and reports what is in it.
    pub(super) fn read(&mut self, mut rest: &[u8], mut report: impl FnMut(Part<'_>)) {
        while let Some(&byte) = rest.first() {
            let after_return = std::mem::replace(&mut self.returned, byte == b'\r');
            if matches!(byte, b'\n' | b'\r') {
                if !(byte == b'\n' && after_return) {
                    match self.line {
                        Line::Name(0) => report(Part::End),
                        // Several lines of data are one text.
                        _ if self.has_data() => report(Part::Data(b"\n")),
                        _ => {}
                    }
                    self.line = Line::Name(0);
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
        matches!(self.line, Line::Data | Line::AfterName)
    }

    /// Reads a piece of one line.
    fn read_line(&mut self, mut line: &[u8], report: &mut impl FnMut(Part<'_>)) {
        while let Some((&byte, rest)) = line.split_first() {
            match self.line {
                Line::Name(read) if NAME[read] == byte => {
                    self.line = if read + 1 == NAME.len() { Line::AfterName } else { Line::Name(read + 1) };
                }
                Line::Name(_) => self.line = Line::Other,
                Line::AfterName => {
                    self.line = Line::Data;
                    if byte != b' ' {
                        continue;
                    }
                }
                Line::Data => return report(Part::Data(line)),
                Line::Other => return,
            }
            line = rest;
        }
    }
}
