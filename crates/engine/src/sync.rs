//! Synchronization primitives of the lock-free code. The interleaving tests compile the same files against
//! another module of this name.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Backs off while another thread holds the lock: spins 64 rounds, then yields the thread.
pub(crate) fn spin(round: u32) {
    if round < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
