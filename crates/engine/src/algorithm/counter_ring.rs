//! Ring of counters packed into 64-bit words, each as narrow as the limit allows.
//!
//! The cells of a window should share a cache line with their key's tag. A limit below 255 needs one byte per
//! cell, so 31 cells fit into four words.
//!
//! A counter at its maximum is saturated: it was charged more than it can hold. It stays saturated until its
//! cell expires, regardless of refunds. For this reason a counter can always hold more than the limit.

/// Layout of a counter ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CounterRing {
    count: u32,
    /// Bits per counter as a power of two: 3 for a byte, 6 for a whole word.
    width: u32,
}

impl CounterRing {
    /// Ring of `count` counters, each able to hold at least `max + 1`.
    pub(super) const fn new(count: u32, max: u64) -> Self {
        let width = if max < u8::MAX as u64 {
            3
        } else if max < u16::MAX as u64 {
            4
        } else if max < u32::MAX as u64 {
            5
        } else {
            6
        };
        Self { count, width }
    }

    pub(super) const fn words(self) -> usize {
        ((self.count as usize) << self.width).div_ceil(64)
    }

    /// Maximum value of a counter.
    const fn mask(self) -> u64 {
        u64::MAX >> (64 - (1u32 << self.width))
    }

    /// Word index and shift of the counter for cell number `cell`.
    #[inline]
    const fn position(self, cell: u64) -> (usize, u32) {
        let bit = ((cell % self.count as u64) as usize) << self.width;
        (bit / 64, (bit % 64) as u32)
    }

    #[inline]
    pub(super) fn get(self, words: &[u64], cell: u64) -> u64 {
        let (word, shift) = self.position(cell);
        (words[word] >> shift) & self.mask()
    }

    /// Sets a counter, saturating at its maximum.
    #[inline]
    pub(super) fn set(self, words: &mut [u64], cell: u64, value: u64) {
        let (word, shift) = self.position(cell);
        let value = value.min(self.mask());
        words[word] = (words[word] & !(self.mask() << shift)) | (value << shift);
    }

    /// Corrects a charge from `taken` to `actual`, unless the counter is saturated.
    pub(super) fn correct(self, words: &mut [u64], cell: u64, taken: u64, actual: u64) {
        let count = self.get(words, cell);
        if count < self.mask() {
            self.set(words, cell, count.saturating_sub(taken).saturating_add(actual));
        }
    }

    /// Subtracts up to `amount` from a counter, unless it is saturated. Returns the amount subtracted.
    pub(super) fn subtract(self, words: &mut [u64], cell: u64, amount: u64) -> u64 {
        let count = self.get(words, cell);
        let taken = if count < self.mask() { count.min(amount) } else { 0 };
        self.set(words, cell, count - taken);
        taken
    }

    /// Sum of all counters. The ring contains nothing else, so no cell number is needed.
    #[inline]
    pub(super) fn sum(self, words: &[u64]) -> u64 {
        match self.width {
            3 => words.iter().map(|w| w.to_le_bytes().iter().map(|b| u64::from(*b)).sum::<u64>()).sum(),
            6 => words.iter().fold(0, |sum, w| w.saturating_add(sum)),
            width => {
                let (bits, mask) = (1 << width, self.mask());
                let lanes = 64 / bits;
                words.iter().flat_map(|w| (0..lanes).map(move |lane| (w >> (lane * bits)) & mask)).sum()
            }
        }
    }
}
