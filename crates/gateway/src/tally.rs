//! What a thread has answered, for whoever watches.
//!
//! Every thread counts for itself, so that counting costs next to nothing; who wants to know adds up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use parking_lot::Mutex;

/// The classes of statuses: 1xx to 5xx.
pub(crate) const CLASSES: usize = 5;

/// The requests of one thread. Not beside anybody else's in memory.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Tally {
    under_way: AtomicU64,
    answered: [AtomicU64; CLASSES],
}

impl Tally {
    /// A request is under way until what this answers is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100);
        // Whatever a server makes up beyond 5xx is in the last class.
        let class = class.clamp(1, CLASSES) - 1;
        self.answered[class].fetch_add(1, Ordering::Relaxed);
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Tally>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The tallies of all threads.
#[derive(Debug, Default)]
pub(crate) struct Tallies(Mutex<Vec<Arc<Tally>>>);

impl Tallies {
    /// One more, for a thread.
    pub(crate) fn add(&self) -> Arc<Tally> {
        let tally = Arc::new(Tally::default());
        self.0.lock().push(Arc::clone(&tally));
        tally
    }

    /// Requests under way now, and answers so far by the class of their status.
    pub(crate) fn sum(&self) -> (u64, [u64; CLASSES]) {
        let (mut under_way, mut answered) = (0, [0; CLASSES]);
        for tally in self.0.lock().iter() {
            under_way += tally.under_way.load(Ordering::Relaxed);
            for (sum, part) in answered.iter_mut().zip(&tally.answered) {
                *sum += part.load(Ordering::Relaxed);
            }
        }
        (under_way, answered)
    }
}
