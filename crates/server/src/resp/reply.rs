//! Reply buffer for RESP2 and RESP3.

use std::fmt;
use std::io::Write;

/// Buffer capacity that an idle connection retains.
const RETAINED_BYTES: usize = 16 * 1024;

/// Unsent replies in command order.
#[derive(Debug, Default)]
pub(super) struct ReplyBuffer {
    bytes: Vec<u8>,
    sent: usize,
    /// Set when the client speaks RESP3.
    pub(super) is_resp3: bool,
}

impl ReplyBuffer {
    /// The unsent bytes.
    pub(super) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Marks bytes as sent. Their space is reused, even if unsent bytes always remain.
    pub(super) fn mark_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        let unsent = self.unsent().len();
        if unsent == 0 && self.bytes.capacity() > RETAINED_BYTES {
            self.bytes = Vec::new();
        } else if unsent <= self.sent {
            // Moves no more bytes than were sent since the last move.
            self.bytes.drain(..self.sent);
        } else {
            return;
        }
        self.sent = 0;
    }

    #[inline]
    fn head(&mut self, kind: u8, number: impl itoa::Integer) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn status(&mut self, status: &str) {
        self.bytes.push(b'+');
        self.bytes.extend_from_slice(status.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// An error reply in one line: line breaks become spaces.
    pub(super) fn error(&mut self, error: impl fmt::Display) {
        self.bytes.push(b'-');
        let start = self.bytes.len();
        // Writing to memory cannot fail.
        let _ = write!(self.bytes, "{error}");
        let text = self.bytes.get_mut(start..).unwrap_or_default();
        text.iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n')).for_each(|byte| *byte = b' ');
        self.bytes.extend_from_slice(b"\r\n");
    }

    #[inline]
    pub(super) fn integer(&mut self, integer: i64) {
        self.head(b':', integer);
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.head(b'$', bytes.len());
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// Starts an array of `len` elements.
    #[inline]
    pub(super) fn array(&mut self, len: usize) {
        self.head(b'*', len);
    }

    /// Starts a map of `len` pairs.
    pub(super) fn map(&mut self, len: usize) {
        if self.is_resp3 { self.head(b'%', len) } else { self.array(2 * len) }
    }

    /// Starts a set of `len` elements.
    pub(super) fn set(&mut self, len: usize) {
        self.head(if self.is_resp3 { b'~' } else { b'*' }, len);
    }

    /// A verbatim string.
    pub(super) fn verbatim(&mut self, text: &str) {
        if !self.is_resp3 {
            return self.bulk(text.as_bytes());
        }
        self.head(b'=', text.len() + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Client input in an error message: truncated and as valid UTF-8.
pub(super) struct InputExcerpt<'a>(pub(super) &'a [u8]);

impl fmt::Display for InputExcerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX_BYTES: usize = 128;
        let excerpt = self.0.get(..MAX_BYTES).unwrap_or(self.0);
        f.write_str(&String::from_utf8_lossy(excerpt))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that is always slightly behind must not make the buffer grow.
    #[test]
    fn sent_bytes_are_released() {
        let mut replies = ReplyBuffer::default();
        replies.bulk(&[b'x'; 1_000]);
        for _ in 0..10_000 {
            replies.bulk(&[b'x'; 1_000]);
            let before = replies.unsent().len();
            replies.mark_sent(1_000);
            assert_eq!(replies.unsent().len(), before - 1_000);
            replies.mark_sent(9);
        }
        assert_eq!(
            replies.unsent(),
            b"$1000\r\n".iter().chain(&[b'x'; 1_000]).chain(b"\r\n").copied().collect::<Vec<_>>()
        );
        assert!(replies.bytes.capacity() < 16 * 1_024, "{}", replies.bytes.capacity());
    }
}
