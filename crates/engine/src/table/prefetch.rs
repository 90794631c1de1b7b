//! Asks the processor to fetch memory that will be needed in a moment.
//!
//! A decision on a random key of a large table waits for memory more than it computes. The bucket is
//! known as soon as the key is hashed; fetching all its cache lines at once, while the clock is read,
//! costs one wait instead of one per line.

/// Starts fetching the first lines of a value.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn prefetch<T>(value: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    const LINE: usize = 64;
    const MOST: usize = 4 * LINE;
    let start = std::ptr::from_ref(value).cast::<i8>();
    // The last line first: it holds the lock.
    let mut offset = size_of::<T>().min(MOST);
    while offset >= LINE {
        offset -= LINE;
        // SAFETY: a prefetch is a hint. It never faults, whatever the address, and neither reads nor
        // writes anything the program can see. The address is within `value` all the same.
        #[expect(unsafe_code, reason = "the proof stands above")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset));
        }
    }
}

/// There is no stable way to ask here; the processor finds out by itself.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn prefetch<T>(_value: &T) {}
