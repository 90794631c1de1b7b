//! Manual executor, and constructors for bulkheads.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sluicegate::bulkhead::{AcquirePermit, Bulkhead, BulkheadPermit, BulkheadRefusal, Class, ClassHandle};
use sluicegate::clock::ManualClock;

#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A caller polled by hand.
pub(crate) struct ManualCaller {
    acquire: Pin<Box<AcquirePermit>>,
    waker: Arc<CountingWaker>,
    wakes_seen: usize,
}

impl ManualCaller {
    pub(crate) fn new(acquire: AcquirePermit) -> Self {
        Self { acquire: Box::pin(acquire), waker: Arc::default(), wakes_seen: 0 }
    }

    /// Arrives; must have to wait.
    pub(crate) fn waiting(acquire: AcquirePermit) -> Self {
        let mut caller = Self::new(acquire);
        assert!(caller.poll().is_pending(), "it should have had to wait");
        caller
    }

    pub(crate) fn poll(&mut self) -> Poll<Result<BulkheadPermit, BulkheadRefusal>> {
        self.wakes_seen = self.waker.0.load(Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.waker));
        self.acquire.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// True if the waker was called since the last poll.
    pub(crate) fn is_woken(&self) -> bool {
        self.waker.0.load(Ordering::SeqCst) > self.wakes_seen
    }

    /// From now on another waker is handed in.
    pub(crate) fn change_waker(&mut self) {
        (self.waker, self.wakes_seen) = Default::default();
    }

    /// It must have been woken, and be done.
    pub(crate) fn outcome(&mut self) -> Result<BulkheadPermit, BulkheadRefusal> {
        assert!(self.is_woken(), "the caller was not woken");
        match self.poll() {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("woken for nothing"),
        }
    }

    /// Must neither have been woken nor be done.
    pub(crate) fn assert_still_pending(&mut self) {
        assert!(!self.is_woken(), "woken for nothing");
        assert!(self.poll().is_pending(), "it should wait on");
    }
}

pub(crate) fn bulkhead(clock: &ManualClock, permits: usize, classes: &[(&str, Class)]) -> Bulkhead {
    let builder = Bulkhead::builder(permits).clock(clock.clone());
    classes.iter().fold(builder, |builder, (name, class)| builder.class(name, class.clone())).build().unwrap()
}

/// Acquires this many permits, which must be free.
pub(crate) fn fill(handle: &ClassHandle, permits: usize) -> Vec<BulkheadPermit> {
    (0..permits).map(|_| handle.try_acquire().unwrap()).collect()
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const NANO: Duration = Duration::from_nanos(1);
