//! Incremental parser for server-sent events (`text/event-stream`), as browsers parse them.

/// Maximum size of an event in bytes.
const MAX_EVENT_BYTES: usize = 16 << 20;

/// Error for an event above the maximum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event exceeds {} MiB", MAX_EVENT_BYTES >> 20)]
pub(super) struct EventTooLong;

/// Parser state: bytes that do not form a complete event yet.
#[derive(Debug, Default)]
pub(super) struct EventParser {
    line: Vec<u8>,
    kind: String,
    data: String,
    /// Set if the last line ended with CR: an LF that follows belongs to it.
    after_cr: bool,
}

/// A server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SseEvent {
    pub(super) kind: String,
    pub(super) data: String,
}

impl EventParser {
    /// Adds received bytes; returns the events that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<SseEvent>, EventTooLong> {
        let mut complete = Vec::new();
        for &byte in bytes {
            let follows_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if follows_cr => {}
                b'\r' | b'\n' => complete.extend(self.finish_line()),
                _ if self.line.len() + self.data.len() >= MAX_EVENT_BYTES => return Err(EventTooLong),
                _ => self.line.push(byte),
            }
        }
        Ok(complete)
    }

    fn finish_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            let (kind, mut data) = (std::mem::take(&mut self.kind), std::mem::take(&mut self.data));
            data.pop();
            return Some(SseEvent { kind, data }).filter(|event| !event.data.is_empty());
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
            // A comment, or a field that is not used.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, data: &str) -> SseEvent {
        SseEvent { kind: kind.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn events_are_parsed_across_any_chunking() {
        let text = ": hello\n\nevent: tick\ndata: {\"a\":1}\nid: 7\n\ndata:one\r\ndata: two\r\n\r\nevent: empty\n\nevent: late\rdata: x\r\r";
        let expected = [event("tick", "{\"a\":1}"), event("", "one\ntwo"), event("late", "x")];
        for size in 1..text.len() {
            let mut events = EventParser::default();
            let found: Vec<_> = text.as_bytes().chunks(size).flat_map(|part| events.push(part).unwrap()).collect();
            assert_eq!(found, expected, "chunks of {size}");
        }
    }

    #[test]
    fn non_event_streams_are_ignored() {
        let mut events = EventParser::default();
        assert_eq!(events.push(b"\xff\xfe\0\n\xf0\x9f\n\n<html>\n\n"), Ok(Vec::new()));
        let part = vec![b'x'; 1 << 20];
        let end = (0..20).map(|_| events.push(&part)).find(Result::is_err);
        assert_eq!(end, Some(Err(EventTooLong)));
        let mut events = EventParser::default();
        let lines = [&b"data:"[..], &part, b"\n"].concat();
        assert!((0..20).any(|_| events.push(&lines).is_err()), "also with many lines");
    }
}
