//! Where a bucket keeps its states: in its own cache lines, or on the heap when they are large.

use super::bucket::{FAR, NEAR};

/// How a bucket keeps its states.
pub(crate) trait Storage {
    /// Those of the near slots.
    type Near: Row;
    /// Those of the far slots and of one more, the strict slot, which comes last.
    type Far: Row;
}

/// Room for a few states.
///
/// A state may be longer than the plan needs; what is beyond stays zero.
pub(crate) trait Row: Send + Sync {
    /// Room for states of so many words, all zero.
    fn zeroed(words: usize) -> Self;
    /// One state; empty while nothing was ever stored in the row.
    fn state(&self, place: usize) -> &[u64];
    /// One state, to change.
    fn state_mut(&mut self, place: usize) -> &mut [u64];
    /// Bytes outside the row itself.
    fn heap_bytes(&self) -> usize;
}

/// States within the bucket.
pub(crate) struct Inline<const WORDS: usize>;

impl<const WORDS: usize> Storage for Inline<WORDS> {
    type Near = InlineRow<WORDS, NEAR>;
    type Far = InlineRow<WORDS, { FAR + 1 }>;
}

pub(crate) struct InlineRow<const WORDS: usize, const STATES: usize>([[u64; WORDS]; STATES]);

impl<const WORDS: usize, const STATES: usize> Row for InlineRow<WORDS, STATES> {
    fn zeroed(_words: usize) -> Self {
        Self([[0; WORDS]; STATES])
    }

    #[inline]
    fn state(&self, place: usize) -> &[u64] {
        &self.0[place]
    }

    #[inline]
    fn state_mut(&mut self, place: usize) -> &mut [u64] {
        &mut self.0[place]
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

/// States on the heap, allocated when a row is first written to: a log of hundreds of entries per key
/// is paid for only where keys are.
pub(crate) struct Heap;

impl Storage for Heap {
    type Near = HeapRow<NEAR>;
    type Far = HeapRow<{ FAR + 1 }>;
}

pub(crate) struct HeapRow<const STATES: usize> {
    words: usize,
    states: Vec<u64>,
}

impl<const STATES: usize> Row for HeapRow<STATES> {
    fn zeroed(words: usize) -> Self {
        Self { words, states: Vec::new() }
    }

    fn state(&self, place: usize) -> &[u64] {
        self.states.get(place * self.words..(place + 1) * self.words).unwrap_or_default()
    }

    fn state_mut(&mut self, place: usize) -> &mut [u64] {
        if self.states.is_empty() {
            self.states = vec![0; self.words * STATES];
        }
        &mut self.states[place * self.words..(place + 1) * self.words]
    }

    fn heap_bytes(&self) -> usize {
        self.states.capacity() * size_of::<u64>()
    }
}
