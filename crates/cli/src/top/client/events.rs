//! Events of a stream, taken apart as its bytes come: `text/event-stream` as browsers read it.

/// The longest event there is room for.
const LONGEST: usize = 16 << 20;

/// An event that is longer than there is room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event has more than {} MiB", LONGEST >> 20)]
pub(super) struct TooLong;

/// What has come of a stream so far and is not told yet.
#[derive(Debug, Default)]
pub(super) struct Events {
    line: Vec<u8>,
    kind: String,
    data: String,
    /// The last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) data: String,
}

impl Events {
    /// Takes what has come, and answers the events that are complete with it.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut complete = Vec::new();
        for &byte in bytes {
            let follows_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if follows_cr => {}
                b'\r' | b'\n' => complete.extend(self.end_line()),
                _ if self.line.len() + self.data.len() >= LONGEST => return Err(TooLong),
                _ => self.line.push(byte),
            }
        }
        Ok(complete)
    }

    fn end_line(&mut self) -> Option<Event> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let (kind, mut data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
            data.pop();
            return Some(Event { kind, data }).filter(|event| !event.data.is_empty());
        }
        let line = String::from_utf8_lossy(&line);
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name.trim_start_matches('\u{feff}') {
            "event" => self.kind = value.to_owned(),
            "data" => {
                self.data.push_str(value);
                self.data.push('\n');
            }
            // A comment, or what is of no use here.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> Event {
        Event { kind: kind.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_found_however_they_are_cut() {
        let text = ": hello\n\nevent: tick\ndata: {\"a\":1}\nid: 7\n\ndata:one\r\ndata: two\r\n\r\nevent: empty\n\nevent: late\rdata: x\r\r";
        let expected = [event("tick", "{\"a\":1}"), event("", "one\ntwo"), event("late", "x")];
        for size in 1..text.len() {
            let mut events = Events::default();
            let found: Vec<_> = text.as_bytes().chunks(size).flat_map(|part| events.take(part).unwrap()).collect();
            assert_eq!(found, expected, "cut by {size}");
        }
    }

    #[test]
    fn what_is_no_stream_does_no_harm() {
        let mut events = Events::default();
        assert_eq!(events.take(b"\xff\xfe\0\n\xf0\x9f\n\n<html>\n\n"), Ok(Vec::new()));
        let part = vec![b'x'; 1 << 20];
        let end = (0..20).map(|_| events.take(&part)).find(Result::is_err);
        assert_eq!(end, Some(Err(TooLong)));
        let mut events = Events::default();
        let lines = [&b"data:"[..], &part, b"\n"].concat();
        assert!((0..20).any(|_| events.take(&lines).is_err()), "also in many lines");
    }
}
