//! Looking for more before going to sleep.
//!
//! A thread with nothing to do sleeps until the system wakes it. To be woken takes some microseconds, which the request
//! waits for; and most of that is done by whoever sends it, on its own core, instead of the next thing it would do. A
//! server with a core to itself can stay awake for a moment after each request, and look whether there is another one.
//!
//! Between two looks, others that are ready to run on its core go first: only time is spent that nobody else wanted. But
//! it counts as time of the processor all the same, where that is measured or meted out.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Keeps a thread awake as long as it has had something to do a moment ago.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    /// How often somebody had something to do.
    done: AtomicU64,
    sleeps: AtomicBool,
    wakes: Notify,
}

impl Lookout {
    /// Begins to look, in the runtime of the thread this is called in; each time for so long after the last thing done.
    pub(crate) fn begin(patience: Duration) -> Arc<Self> {
        let lookout = Arc::<Self>::default();
        tokio::spawn(Arc::clone(&lookout).look(patience));
        lookout
    }

    /// Somebody has something to do.
    fn note(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
        if self.sleeps.load(Ordering::Relaxed) {
            self.wakes.notify_one();
        }
    }

    async fn look(self: Arc<Self>, patience: Duration) {
        let done = || self.done.load(Ordering::Relaxed);
        loop {
            let mut vigil = Vigil::new(patience, done(), Instant::now());
            loop {
                // The runtime asks the system what has come, as nobody else has anything to do.
                tokio::task::yield_now().await;
                match vigil.goes_on(done(), Instant::now()) {
                    Look::Again => {}
                    Look::AfterOthers => thread::yield_now(),
                    Look::NoMore => break,
                }
            }
            self.sleeps.store(true, Ordering::Relaxed);
            self.wakes.notified().await;
            self.sleeps.store(false, Ordering::Relaxed);
        }
    }
}

/// What to do after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Something was done: look at once.
    Again,
    /// Nothing was: look when others have had the core.
    AfterOthers,
    /// Nothing was for too long: sleep.
    NoMore,
}

/// For how long it is looked.
struct Vigil {
    patience: Duration,
    done: u64,
    since: Instant,
}

impl Vigil {
    const fn new(patience: Duration, done: u64, now: Instant) -> Self {
        Self { patience, done, since: now }
    }

    fn goes_on(&mut self, done: u64, now: Instant) -> Look {
        if self.done != done {
            (self.done, self.since) = (done, now);
            Look::Again
        } else if now.duration_since(self.since) < self.patience {
            Look::AfterOthers
        } else {
            Look::NoMore
        }
    }
}

/// A task that keeps its thread's lookout awake.
pub(crate) struct Lively<F> {
    task: Pin<Box<F>>,
    lookout: Arc<Lookout>,
}

impl<F: Future> Lively<F> {
    pub(crate) fn new(task: F, lookout: &Arc<Lookout>) -> Self {
        Self { task: Box::pin(task), lookout: Arc::clone(lookout) }
    }
}

impl<F: Future> Future for Lively<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.lookout.note();
        self.task.as_mut().poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_for_so_long_after_the_last_thing_done() {
        let begun = Instant::now();
        let at = |micros| begun + Duration::from_micros(micros);
        let mut vigil = Vigil::new(Duration::from_micros(50), 7, begun);
        for (micros, done, expected) in [
            (10, 7, Look::AfterOthers),
            (49, 7, Look::AfterOthers),
            (60, 8, Look::Again),
            (109, 8, Look::AfterOthers),
            (110, 8, Look::NoMore),
        ] {
            assert_eq!(vigil.goes_on(done, at(micros)), expected, "{micros}");
        }
    }

    #[tokio::test]
    async fn it_sleeps_when_nothing_comes_and_wakes_when_something_does() {
        let lookout = Lookout::begin(Duration::from_micros(1));
        let sleeps = || lookout.sleeps.load(Ordering::Relaxed);
        for _ in 0..3 {
            while !sleeps() {
                tokio::task::yield_now().await;
            }
            assert_eq!(Lively::new(async { 5 }, &lookout).await, 5);
            while sleeps() {
                tokio::task::yield_now().await;
            }
        }
    }
}
