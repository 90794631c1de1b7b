//! Busy polling: polls for a configured time before the thread blocks.
//!
//! An idle thread blocks in epoll until the kernel wakes it. The wakeup takes some microseconds, which adds to
//! the latency of the request, and most of that work is done on the core of the sender. A server with a core of
//! its own can stay awake for a short time after each request and poll for the next one.
//!
//! Between two polls the thread yields its core, so it only uses time that no other thread wanted. That time
//! still counts as CPU time wherever CPU time is measured or limited.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Keeps a thread busy-polling for a while after its last work.
#[derive(Debug, Default)]
pub(crate) struct BusyPoller {
    /// Number of wakeups of polling tasks.
    wakeups: AtomicU64,
    is_parked: AtomicBool,
    unpark: Notify,
}

impl BusyPoller {
    /// Starts polling on the current runtime, each time for `window` after the last wakeup.
    pub(crate) fn start(window: Duration) -> Arc<Self> {
        let poller = Arc::<Self>::default();
        tokio::spawn(Arc::clone(&poller).run(window));
        poller
    }

    /// Records that a task has work to do.
    fn record_wakeup(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        if self.is_parked.load(Ordering::Relaxed) {
            self.unpark.notify_one();
        }
    }

    async fn run(self: Arc<Self>, window: Duration) {
        let done = || self.wakeups.load(Ordering::Relaxed);
        loop {
            let mut window = PollWindow::new(window, done(), Instant::now());
            loop {
                // As no other task is ready, the runtime polls the I/O driver here.
                tokio::task::yield_now().await;
                match window.next_action(done(), Instant::now()) {
                    PollAction::PollNow => {}
                    PollAction::YieldCore => thread::yield_now(),
                    PollAction::Park => break,
                }
            }
            self.is_parked.store(true, Ordering::Relaxed);
            self.unpark.notified().await;
            self.is_parked.store(false, Ordering::Relaxed);
        }
    }
}

/// Next step after a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollAction {
    /// There was work: poll again at once.
    PollNow,
    /// There was no work: yield the core, then poll.
    YieldCore,
    /// There was no work during the whole window: block.
    Park,
}

/// Time window of busy polling.
struct PollWindow {
    window: Duration,
    last_wakeups: u64,
    idle_since: Instant,
}

impl PollWindow {
    const fn new(window: Duration, done: u64, now: Instant) -> Self {
        Self { window, last_wakeups: done, idle_since: now }
    }

    fn next_action(&mut self, done: u64, now: Instant) -> PollAction {
        if self.last_wakeups != done {
            (self.last_wakeups, self.idle_since) = (done, now);
            PollAction::PollNow
        } else if now.duration_since(self.idle_since) < self.window {
            PollAction::YieldCore
        } else {
            PollAction::Park
        }
    }
}

/// A task that records its wakeups with the thread's busy poller.
pub(crate) struct PollingTask<F> {
    task: Pin<Box<F>>,
    poller: Arc<BusyPoller>,
}

impl<F: Future> PollingTask<F> {
    pub(crate) fn new(task: F, poller: &Arc<BusyPoller>) -> Self {
        Self { task: Box::pin(task), poller: Arc::clone(poller) }
    }
}

impl<F: Future> Future for PollingTask<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.poller.record_wakeup();
        self.task.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_for_the_window_after_the_last_wakeup() {
        let start = Instant::now();
        let at = |micros| start + Duration::from_micros(micros);
        let mut window = PollWindow::new(Duration::from_micros(50), 7, start);
        for (micros, done, expected) in [
            (10, 7, PollAction::YieldCore),
            (49, 7, PollAction::YieldCore),
            (60, 8, PollAction::PollNow),
            (109, 8, PollAction::YieldCore),
            (110, 8, PollAction::Park),
        ] {
            assert_eq!(window.next_action(done, at(micros)), expected, "{micros}");
        }
    }

    #[tokio::test]
    async fn parks_when_idle_and_unparks_on_work() {
        let poller = BusyPoller::start(Duration::from_micros(1));
        let is_parked = || poller.is_parked.load(Ordering::Relaxed);
        for _ in 0..3 {
            while !is_parked() {
                tokio::task::yield_now().await;
            }
            assert_eq!(PollingTask::new(async { 5 }, &poller).await, 5);
            while is_parked() {
                tokio::task::yield_now().await;
            }
        }
    }
}
