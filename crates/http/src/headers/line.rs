//! A header's line while it is being written.

/// What a line is put together in.
pub(super) trait Pieces {
    fn push(&mut self, piece: &[u8]);

    fn push_number(&mut self, number: u64) {
        self.push(itoa::Buffer::new().format(number).as_bytes());
    }
}

impl Pieces for Vec<u8> {
    #[inline]
    fn push(&mut self, piece: &[u8]) {
        self.extend_from_slice(piece);
    }
}

/// Bytes of a line that need no memory of their own; most lines are shorter.
const SHORT: usize = 128;

/// Written in place first, and copied once to where it is just as long. A long line moves out.
pub(super) struct Line {
    short: [u8; SHORT],
    length: usize,
    /// The whole line, once it has become too long.
    long: Vec<u8>,
}

impl Line {
    pub(super) const fn new() -> Self {
        Self { short: [0; SHORT], length: 0, long: Vec::new() }
    }

    #[cold]
    fn push_long(&mut self, piece: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..self.length]);
            // No piece fits behind it any more.
            self.length = SHORT + 1;
        }
        self.long.extend_from_slice(piece);
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        self.short.get(..self.length).unwrap_or(&self.long)
    }
}

impl Pieces for Line {
    #[inline]
    fn push(&mut self, piece: &[u8]) {
        let end = self.length + piece.len();
        match self.short.get_mut(self.length..end) {
            Some(room) => {
                room.copy_from_slice(piece);
                self.length = end;
            }
            None => self.push_long(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every length around the edge, in pieces of every size.
    #[test]
    fn what_was_pushed_is_there() {
        for size in 1..=SHORT + 2 {
            let mut line = Line::new();
            let mut expected = Vec::new();
            for nth in 0..=(2 * SHORT / size) as u64 {
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
