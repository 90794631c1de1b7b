//! Numbers that say a cost.

/// The largest cost that is believed: beyond it, numbers in JSON are not exact any more.
const MOST: f64 = 9_007_199_254_740_992.0;

/// The cost a number in text says, rounded up. `None`: it is none, or negative, or absurd.
pub(super) fn amount(text: &[u8]) -> Option<u64> {
    let number: f64 = std::str::from_utf8(text).ok()?.trim().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and within what fits")]
    (0.0..=MOST).contains(&number).then(|| number.ceil() as u64)
}

/// A number that comes in pieces. No sensible one is longer than there is room for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Digits {
    text: [u8; 32],
    len: usize,
}

impl Digits {
    /// Whether a byte can be part of a number.
    pub(super) const fn may_have(byte: u8) -> bool {
        matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
    }

    pub(super) fn push(&mut self, byte: u8) {
        if let Some(place) = self.text.get_mut(self.len) {
            *place = byte;
        }
        self.len = self.len.saturating_add(1);
    }

    /// What it says, if it is whole.
    pub(super) fn amount(&self) -> Option<u64> {
        self.text.get(..self.len).and_then(amount)
    }
}
