//! The few primitives the lock-free parts use. The tests of their interleavings compile the same files
//! against another module of this name.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

/// Waits a moment for another thread: briefly on the spot, then by letting it run.
pub(crate) fn spin(round: u32) {
    if round < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
