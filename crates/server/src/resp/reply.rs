//! Replies that wait to be sent, in the second or third version of the protocol.

use std::fmt;
use std::io::Write;

/// How much room an idle connection keeps for replies.
const KEPT: usize = 16 * 1024;

/// Replies in the order of their commands, as far as they have not been sent.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    sent: usize,
    /// Whether the client speaks the third version.
    pub(super) third: bool,
}

impl Replies {
    /// What is to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// So many bytes more have been sent. Their room is used again, even if something is always left to be sent.
    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.sent += bytes;
        let unsent = self.unsent().len();
        if unsent == 0 && self.bytes.capacity() > KEPT {
            self.bytes = Vec::new();
        } else if unsent <= self.sent {
            // No more is moved than was sent since the last time.
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

    /// An error in one line: line ends within become spaces.
    pub(super) fn error(&mut self, error: impl fmt::Display) {
        self.bytes.push(b'-');
        let start = self.bytes.len();
        // Memory takes all there is.
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
        self.bytes.extend_from_slice(if self.third { b"_\r\n" } else { b"$-1\r\n" });
    }

    /// So many replies follow, as one.
    #[inline]
    pub(super) fn array(&mut self, len: usize) {
        self.head(b'*', len);
    }

    /// So many pairs of replies follow.
    pub(super) fn map(&mut self, len: usize) {
        if self.third { self.head(b'%', len) } else { self.array(2 * len) }
    }

    /// So many replies follow, of which none is there twice.
    pub(super) fn set(&mut self, len: usize) {
        self.head(if self.third { b'~' } else { b'*' }, len);
    }

    /// Text for people.
    pub(super) fn text(&mut self, text: &str) {
        if !self.third {
            return self.bulk(text.as_bytes());
        }
        self.head(b'=', text.len() + 4);
        self.bytes.extend_from_slice(b"txt:");
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// What a client sent, as an error shows it: not too much of it, and readable.
pub(super) struct Shown<'a>(pub(super) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 128;
        let shown = self.0.get(..LONGEST).unwrap_or(self.0);
        f.write_str(&String::from_utf8_lossy(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that is always a little behind must not make us keep what it has taken.
    #[test]
    fn what_was_sent_is_not_kept() {
        let mut replies = Replies::default();
        replies.bulk(&[b'x'; 1_000]);
        for _ in 0..10_000 {
            replies.bulk(&[b'x'; 1_000]);
            let before = replies.unsent().len();
            replies.note_sent(1_000);
            assert_eq!(replies.unsent().len(), before - 1_000);
            replies.note_sent(9);
        }
        assert_eq!(
            replies.unsent(),
            b"$1000\r\n".iter().chain(&[b'x'; 1_000]).chain(b"\r\n").copied().collect::<Vec<_>>()
        );
        assert!(replies.bytes.capacity() < 16 * 1_024, "{}", replies.bytes.capacity());
    }
}
