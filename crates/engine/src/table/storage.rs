//! Where a bucket keeps its states: in its own cache lines, or on the heap when they are large.

use super::bucket::SLOTS;

/// Room for [`SLOTS`] states and one more, the strict slot, which comes last.
///
/// A state may be longer than the plan needs; what is beyond stays zero.
pub(crate) trait Storage: Send + Sync {
    /// Room for states of so many words, all zero.
    fn zeroed(words: usize) -> Self;
    /// One state; empty while nothing was ever stored in the bucket.
    fn state(&self, slot: usize) -> &[u64];
    /// One state, to change.
    fn state_mut(&mut self, slot: usize) -> &mut [u64];
    /// Bytes outside the bucket itself.
    fn heap_bytes(&self) -> usize;
}

/// States within the bucket.
pub(crate) struct Inline<const WORDS: usize>([[u64; WORDS]; SLOTS + 1]);

impl<const WORDS: usize> Storage for Inline<WORDS> {
    fn zeroed(_words: usize) -> Self {
        Self([[0; WORDS]; SLOTS + 1])
    }

    #[inline]
    fn state(&self, slot: usize) -> &[u64] {
        &self.0[slot]
    }

    #[inline]
    fn state_mut(&mut self, slot: usize) -> &mut [u64] {
        &mut self.0[slot]
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

/// States on the heap, allocated when the bucket is first written to: a log of hundreds of entries
/// per key is paid for only where keys are.
pub(crate) struct Heap {
    words: usize,
    states: Vec<u64>,
}

impl Storage for Heap {
    fn zeroed(words: usize) -> Self {
        Self { words, states: Vec::new() }
    }

    fn state(&self, slot: usize) -> &[u64] {
        self.states.get(slot * self.words..(slot + 1) * self.words).unwrap_or_default()
    }

    fn state_mut(&mut self, slot: usize) -> &mut [u64] {
        if self.states.is_empty() {
            self.states = vec![0; self.words * (SLOTS + 1)];
        }
        &mut self.states[slot * self.words..(slot + 1) * self.words]
    }

    fn heap_bytes(&self) -> usize {
        self.states.capacity() * size_of::<u64>()
    }
}
