//! A ring of counters packed into 64-bit words, as narrow as the limit allows.
//!
//! A window's cells should share a cache line with their key's fingerprint. A limit below 255 needs
//! one byte per cell, so 31 cells fit into four words.
//!
//! A counter at its highest value has lost count: it was charged more than it can hold. It stays there
//! until its cell drops out, whatever is given back meanwhile. That is why a counter is always able to
//! hold more than the limit.

/// How a ring of counters is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    count: u32,
    /// Bits per counter as a power of two: 3 for a byte, 6 for a whole word.
    width: u32,
}

impl Cells {
    /// `count` counters, each able to hold `most` and one more.
    pub(super) const fn new(count: u32, most: u64) -> Self {
        let width = if most < u8::MAX as u64 {
            3
        } else if most < u16::MAX as u64 {
            4
        } else if most < u32::MAX as u64 {
            5
        } else {
            6
        };
        Self { count, width }
    }

    pub(super) const fn words(self) -> usize {
        ((self.count as usize) << self.width).div_ceil(64)
    }

    /// The highest value a counter can hold.
    const fn mask(self) -> u64 {
        u64::MAX >> (64 - (1u32 << self.width))
    }

    /// Word and shift of the counter for cell number `cell`.
    #[inline]
    const fn place(self, cell: u64) -> (usize, u32) {
        let bit = ((cell % self.count as u64) as usize) << self.width;
        (bit / 64, (bit % 64) as u32)
    }

    #[inline]
    pub(super) fn get(self, words: &[u64], cell: u64) -> u64 {
        let (word, shift) = self.place(cell);
        (words[word] >> shift) & self.mask()
    }

    /// Sets a counter; values beyond its width stay at the highest it can hold.
    #[inline]
    pub(super) fn set(self, words: &mut [u64], cell: u64, value: u64) {
        let (word, shift) = self.place(cell);
        let value = value.min(self.mask());
        words[word] = (words[word] & !(self.mask() << shift)) | (value << shift);
    }

    /// Corrects what was put into a counter from `taken` to `actual`, unless it has lost count.
    pub(super) fn correct(self, words: &mut [u64], cell: u64, taken: u64, actual: u64) {
        let count = self.get(words, cell);
        if count < self.mask() {
            self.set(words, cell, count.saturating_sub(taken).saturating_add(actual));
        }
    }

    /// Takes up to `amount` out of a counter, unless it has lost count. Answers how much that was.
    pub(super) fn take_out(self, words: &mut [u64], cell: u64, amount: u64) -> u64 {
        let count = self.get(words, cell);
        let out = if count < self.mask() { count.min(amount) } else { 0 };
        self.set(words, cell, count - out);
        out
    }

    /// Sum of all counters. The ring holds nothing else, so no cell number is needed.
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
