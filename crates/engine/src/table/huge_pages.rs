//! Asks the kernel for large pages behind a large table.
//!
//! A table of a million keys spans thousands of small pages, and a random key then misses the
//! processor's address cache as well as its data cache. Large pages save the first of the two.

use std::mem::MaybeUninit;

/// Below this a table fits the address cache anyway.
#[cfg(target_os = "linux")]
const WORTHWHILE: usize = 4 << 20;

/// Advises large pages for memory that is about to be written for the first time. Only a hint: where
/// it is not followed, everything works as before.
#[cfg(target_os = "linux")]
pub(super) fn advise<T>(memory: &mut [MaybeUninit<T>]) {
    const PAGE: usize = 4096;
    let bytes = size_of_val(memory);
    if bytes < WORTHWHILE {
        return;
    }
    let start = memory.as_mut_ptr() as usize;
    let aligned = start.next_multiple_of(PAGE);
    let length = (start + bytes - aligned) / PAGE * PAGE;
    // SAFETY: `aligned..aligned + length` lies within `memory`, which this function borrows alone, so
    // the range is mapped and ours. MADV_HUGEPAGE changes neither contents nor protection nor whether
    // the range is mapped: it only marks it for the kernel's choice of page size. The result does not
    // matter, as without large pages nothing changes but speed.
    #[expect(unsafe_code, reason = "the proof stands above")]
    unsafe {
        libc::madvise(aligned as *mut libc::c_void, length, libc::MADV_HUGEPAGE);
    }
}

/// Nothing to ask for here.
#[cfg(not(target_os = "linux"))]
pub(super) fn advise<T>(_memory: &mut [MaybeUninit<T>]) {}
