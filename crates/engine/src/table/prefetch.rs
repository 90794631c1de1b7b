//! Asks the processor to fetch memory that will be needed in a moment.
//!
//! A decision on a random key of a large table waits for memory more than it computes. The bucket is
//! known as soon as the key is hashed; fetching its cache lines at once, while the clock is read, costs
//! one wait instead of one per line.

/// How much of a bucket to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The first line, where the lock and the near slots are.
    Near,
    /// All of it, if it is not too large.
    All,
}

/// Starts fetching the first lines of a value.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn prefetch<T>(value: &T, extent: Extent) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    const LINE: usize = 64;
    let most = match extent {
        Extent::Near => 1,
        Extent::All => 4,
    };
    let start = std::ptr::from_ref(value).cast::<i8>();
    for line in 0..most.min(size_of::<T>() / LINE) {
        // SAFETY: a prefetch is a hint. It never faults, whatever the address, and neither reads nor
        // writes anything the program can see. The address is within `value` all the same.
        #[expect(unsafe_code, reason = "the proof stands above")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * LINE));
        }
    }
}

/// There is no stable way to ask here; the processor finds out by itself.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn prefetch<T>(_value: &T, _extent: Extent) {}
