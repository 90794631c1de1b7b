//! Cache prefetch of a bucket.
//!
//! A decision on a random key of a large table waits for memory more than it computes. The bucket is known as
//! soon as the key is hashed; prefetching its cache lines while the clock is read costs one wait instead of one
//! per line.

/// Part of a bucket to prefetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrefetchExtent {
    /// The first line, with the lock and the primary slots.
    FirstLine,
    /// The whole bucket, up to four lines.
    All,
}

/// Prefetches the first cache lines of a value.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn prefetch<T>(value: &T, extent: PrefetchExtent) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    const CACHE_LINE: usize = 64;
    let max_lines = match extent {
        PrefetchExtent::FirstLine => 1,
        PrefetchExtent::All => 4,
    };
    let start = std::ptr::from_ref(value).cast::<i8>();
    for line in 0..max_lines.min(size_of::<T>() / CACHE_LINE) {
        // SAFETY: a prefetch is a hint. It never faults, for any address, and neither reads nor writes anything
        // visible to the program. The address is within `value` anyway.
        #[expect(unsafe_code, reason = "see the SAFETY comment above")]
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * CACHE_LINE));
        }
    }
}

/// No-op: there is no stable prefetch intrinsic here; the CPU prefetches by itself.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn prefetch<T>(_value: &T, _extent: PrefetchExtent) {}
