//! State storage of a bucket: inline in its cache lines, or on the heap for large states.

use super::bucket::{PRIMARY_SLOTS, SECONDARY_SLOTS};

/// Storage kind of a bucket's states.
pub(crate) trait StateStorage {
    /// States of the primary slots.
    type Primary: StateRow;
    /// States of the secondary slots, followed by the overflow slot.
    type Secondary: StateRow;
}

/// Storage for a few states.
///
/// A state may be longer than the limit set needs; the excess stays zero.
pub(crate) trait StateRow: Send + Sync {
    /// Storage for states of this many words, all zero.
    fn zeroed(words: usize) -> Self;
    /// One state; empty while the row was never written.
    fn state(&self, slot: usize) -> &[u64];
    /// One state, mutable.
    fn state_mut(&mut self, slot: usize) -> &mut [u64];
    /// Heap memory of the row in bytes.
    fn heap_bytes(&self) -> usize;
}

/// States stored within the bucket.
pub(crate) struct Inline<const WORDS: usize>;

impl<const WORDS: usize> StateStorage for Inline<WORDS> {
    type Primary = InlineRow<WORDS, PRIMARY_SLOTS>;
    type Secondary = InlineRow<WORDS, { SECONDARY_SLOTS + 1 }>;
}

pub(crate) struct InlineRow<const WORDS: usize, const STATES: usize>([[u64; WORDS]; STATES]);

impl<const WORDS: usize, const STATES: usize> StateRow for InlineRow<WORDS, STATES> {
    fn zeroed(_words: usize) -> Self {
        Self([[0; WORDS]; STATES])
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

/// States on the heap, allocated on the first write to a row: a log of hundreds of entries per key takes
/// memory only for buckets in use.
pub(crate) struct Heap;

impl StateStorage for Heap {
    type Primary = HeapRow<PRIMARY_SLOTS>;
    type Secondary = HeapRow<{ SECONDARY_SLOTS + 1 }>;
}

pub(crate) struct HeapRow<const STATES: usize> {
    words: usize,
    states: Vec<u64>,
}

impl<const STATES: usize> StateRow for HeapRow<STATES> {
    fn zeroed(words: usize) -> Self {
        Self { words, states: Vec::new() }
    }

    fn state(&self, slot: usize) -> &[u64] {
        self.states.get(slot * self.words..(slot + 1) * self.words).unwrap_or_default()
    }

    fn state_mut(&mut self, slot: usize) -> &mut [u64] {
        if self.states.is_empty() {
            self.states = vec![0; self.words * STATES];
        }
        &mut self.states[slot * self.words..(slot + 1) * self.words]
    }

    fn heap_bytes(&self) -> usize {
        self.states.capacity() * size_of::<u64>()
    }
}
