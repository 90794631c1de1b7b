//! Requests huge pages for a large table.
//!
//! A table of a million keys spans thousands of small pages, so a random key misses the TLB as well as the data
//! cache. Huge pages avoid the TLB miss.

use std::mem::MaybeUninit;

/// Minimum table size; smaller tables fit the TLB anyway.
#[cfg(target_os = "linux")]
const MIN_TABLE_BYTES: usize = 4 << 20;

/// Advises huge pages for memory that is about to be written for the first time. Only a hint: without huge
/// pages everything works the same.
#[cfg(target_os = "linux")]
pub(super) fn advise<T>(memory: &mut [MaybeUninit<T>]) {
    const PAGE: usize = 4096;
    let bytes = size_of_val(memory);
    if bytes < MIN_TABLE_BYTES {
        return;
    }
    let start = memory.as_mut_ptr() as usize;
    let aligned = start.next_multiple_of(PAGE);
    let length = (start + bytes - aligned) / PAGE * PAGE;
    // SAFETY: `aligned..aligned + length` lies within `memory`, which this function borrows exclusively, so the
    // range is mapped and owned. MADV_HUGEPAGE changes neither contents nor protection nor mapping: it only
    // affects the kernel's choice of page size. The result is ignored, because only speed depends on it.
    #[expect(unsafe_code, reason = "see the SAFETY comment above")]
    unsafe {
        libc::madvise(aligned as *mut libc::c_void, length, libc::MADV_HUGEPAGE);
    }
}

/// No-op on other systems.
#[cfg(not(target_os = "linux"))]
pub(super) fn advise<T>(_memory: &mut [MaybeUninit<T>]) {}
