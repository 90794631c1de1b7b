//! Parses costs from decimal numbers.

/// Maximum cost: larger JSON numbers are not exact.
const MAX_COST: f64 = 9_007_199_254_740_992.0;

/// Parses a cost, rounded up; `None` if it is not a number, negative, or above the maximum.
pub(super) fn parse_cost(text: &[u8]) -> Option<u64> {
    let number: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an integer within the range of u64")]
    (0.0..=MAX_COST).contains(&number).then(|| number.ceil() as u64)
}

/// Fixed-size buffer for a number that arrives in chunks; longer numbers are invalid.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NumberBuffer {
    text: [u8; 32],
    len: usize,
}

impl NumberBuffer {
    /// True if a byte can be part of a number.
    pub(super) const fn accepts(byte: u8) -> bool {
        matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
    }

    pub(super) fn push(&mut self, byte: u8) {
        if let Some(slot) = self.text.get_mut(self.len) {
            *slot = byte;
        }
        self.len = self.len.saturating_add(1);
    }

    /// Parses the number; `None` if it did not fit the buffer.
    pub(super) fn parse(&self) -> Option<u64> {
        self.text.get(..self.len).and_then(parse_cost)
    }
}
