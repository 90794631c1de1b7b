//! Whether the machine let programs run: what is measured while it stood still is not measured.
//!
//! Load tests run by the clock. On a machine that does other things at the same time, everything may be held up for
//! seconds: then a healthy server looks slow, and a test that wants a number would fail now and then. So somebody
//! watches. A test that holds has held; one that fails while nothing was held up has failed; one that fails after the
//! machine stood still is made again.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test tells why it is made again")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a test is made at most.
const TRIES: usize = 12;
/// How long the witness sleeps.
const NAP: Duration = Duration::from_millis(5);
/// Waking up so much later is standing still.
const STILL: Duration = Duration::from_millis(25);

struct Witness {
    longest_ms: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Witness {
    fn start() -> Self {
        let (longest_ms, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, end) = (longest_ms.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let asleep = Instant::now();
                thread::sleep(NAP);
                seen.fetch_max(asleep.elapsed().as_millis() as u64, Ordering::Relaxed);
            }
        });
        Self { longest_ms, is_over, thread }
    }

    /// The longest that it was held up.
    fn end(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        Duration::from_millis(self.longest_ms.load(Ordering::Relaxed))
    }
}

/// Makes a test, and makes it again if it fails after the machine stood still.
pub(crate) fn undisturbed(test: impl Fn()) {
    for nth in 1..=TRIES {
        let witness = Witness::start();
        let made = catch_unwind(AssertUnwindSafe(&test));
        let still = witness.end();
        match made {
            Ok(()) => return,
            Err(failure) if still < STILL || nth == TRIES => resume_unwind(failure),
            Err(_) => println!("try {nth} does not count: the machine stood still for {still:?}"),
        }
    }
}
