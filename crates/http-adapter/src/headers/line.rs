//! Buffer for a header value under construction.

/// Byte sink for header values.
pub(super) trait PushBytes {
    fn push(&mut self, piece: &[u8]);

    fn push_number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }
}

impl PushBytes for Vec<u8> {
    #[inline]
    fn push(&mut self, piece: &[u8]) {
        self.extend_from_slice(piece);
    }
}

/// Inline capacity in bytes; most values are shorter.
const INLINE_BYTES: usize = 128;

/// A header value, stored inline and moved to the heap only if it is long. The caller copies it once into an
/// allocation of the exact size.
pub(super) struct HeaderLine {
    inline: [u8; INLINE_BYTES],
    length: usize,
    /// The complete value, once it exceeds the inline capacity.
    overflow: Vec<u8>,
}

impl HeaderLine {
    pub(super) const fn new() -> Self {
        Self { inline: [0; INLINE_BYTES], length: 0, overflow: Vec::new() }
    }

    #[cold]
    fn push_overflow(&mut self, piece: &[u8]) {
        if self.overflow.is_empty() {
            self.overflow.extend_from_slice(&self.inline[..self.length]);
            // Marks the inline buffer as full.
            self.length = INLINE_BYTES + 1;
        }
        self.overflow.extend_from_slice(piece);
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.inline.get(..self.length).unwrap_or(&self.overflow)
    }
}

impl PushBytes for HeaderLine {
    #[inline]
    fn push(&mut self, piece: &[u8]) {
        let end = self.length + piece.len();
        match self.inline.get_mut(self.length..end) {
            Some(room) => {
                room.copy_from_slice(piece);
                self.length = end;
            }
            None => self.push_overflow(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests every length around the inline capacity, in pieces of every size.
    #[test]
    fn pushed_bytes_are_kept_in_order() {
        for size in 1..=INLINE_BYTES + 2 {
            let mut line = HeaderLine::new();
            let mut expected = Vec::new();
            for nth in 0..=(2 * INLINE_BYTES / size) as u64 {
                let piece = vec![b'a' + (nth % 26) as u8; size];
                line.push(&piece);
                line.push_number(nth);
                line.push(b"");
                expected.extend_from_slice(&piece);
                expected.extend_from_slice(nth.to_string().as_bytes());
                assert_eq!(line.as_bytes(), expected);
            }
        }
    }
}
