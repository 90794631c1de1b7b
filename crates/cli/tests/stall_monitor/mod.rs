//! Stall monitor: detects that the machine did not schedule this process during a measurement.
//!
//! Load tests depend on real time. On a busy machine everything may stall for seconds; a healthy server then
//! looks slow, and a test with a numeric bound would fail at random. A test that passes has passed; one that
//! fails without a stall has failed; one that fails after a stall is repeated.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a test prints the reason for a repetition")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Maximum number of runs of a test.
const MAX_TRIES: usize = 12;
/// Sleep time of the monitor.
const SLEEP: Duration = Duration::from_millis(5);
/// A sleep this long counts as a stall.
const STALL_THRESHOLD: Duration = Duration::from_millis(25);

struct StallMonitor {
    max_stall_ms: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl StallMonitor {
    fn start() -> Self {
        let (max_stall_ms, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, end) = (max_stall_ms.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let start = Instant::now();
                thread::sleep(SLEEP);
                seen.fetch_max(start.elapsed().as_millis() as u64, Ordering::Relaxed);
            }
        });
        Self { max_stall_ms, is_over, thread }
    }

    /// Longest sleep that was measured.
    fn stop(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        Duration::from_millis(self.max_stall_ms.load(Ordering::Relaxed))
    }
}

/// Runs a test; repeats it if it fails after a stall.
pub(crate) fn retry_on_stall(test: impl Fn()) {
    for attempt in 1..=MAX_TRIES {
        let monitor = StallMonitor::start();
        let result = catch_unwind(AssertUnwindSafe(&test));
        let stall = monitor.stop();
        match result {
            Ok(()) => return,
            Err(failure) if stall < STALL_THRESHOLD || attempt == MAX_TRIES => resume_unwind(failure),
            Err(_) => println!("attempt {attempt} does not count: the machine stalled for {stall:?}"),
        }
    }
}
