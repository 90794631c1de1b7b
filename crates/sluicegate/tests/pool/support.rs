//! A hand-turned executor, and bulkheads said briefly.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sluicegate::clock::ManualClock;
use sluicegate::pool::{Bulkhead, Class, Entrance, InLine, Place, Refusal};

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A caller polled by hand.
pub(crate) struct Caller {
    line: Pin<Box<InLine>>,
    bell: Arc<Bell>,
    heard: usize,
}

impl Caller {
    pub(crate) fn new(line: InLine) -> Self {
        Self { line: Box::pin(line), bell: Arc::default(), heard: 0 }
    }

    /// Arrives; must have to wait.
    pub(crate) fn waiting(line: InLine) -> Self {
        let mut caller = Self::new(line);
        assert!(caller.poll().is_pending(), "it should have had to wait");
        caller
    }

    pub(crate) fn poll(&mut self) -> Poll<Result<Place, Refusal>> {
        self.heard = self.bell.0.load(Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.bell));
        self.line.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Whether its waker was called since it was polled last.
    pub(crate) fn is_woken(&self) -> bool {
        self.bell.0.load(Ordering::SeqCst) > self.heard
    }

    /// From now on another waker is handed in.
    pub(crate) fn change_waker(&mut self) {
        (self.bell, self.heard) = Default::default();
    }

    /// It must have been woken, and be done.
    pub(crate) fn outcome(&mut self) -> Result<Place, Refusal> {
        assert!(self.is_woken(), "nobody has woken it");
        match self.poll() {
            Poll::Ready(result) => result,
            Poll::Pending => panic!("woken for nothing"),
        }
    }

    /// Must neither have been woken nor be done.
    pub(crate) fn waits_on(&mut self) {
        assert!(!self.is_woken(), "woken for nothing");
        assert!(self.poll().is_pending(), "it should wait on");
    }
}

pub(crate) fn bulkhead(clock: &ManualClock, places: usize, classes: &[(&str, Class)]) -> Bulkhead {
    let builder = Bulkhead::builder(places).clock(clock.clone());
    classes.iter().fold(builder, |builder, (name, class)| builder.class(name, class.clone())).build().unwrap()
}

/// Takes so many places, which must be there.
pub(crate) fn fill(entrance: &Entrance, places: usize) -> Vec<Place> {
    (0..places).map(|_| entrance.enter().unwrap()).collect()
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const NANO: Duration = Duration::from_nanos(1);
