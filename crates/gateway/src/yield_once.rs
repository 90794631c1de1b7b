//! Cooperative yield: lets other ready tasks run first.
//!
//! All tasks read first, then all write: a connection with data to write yields once to all other ready tasks
//! of its thread. A write wakes a peer, which may take the CPU or send its next request while others still wait
//! for their first; and many operations of one kind in a row are cheaper than alternating kinds.

use std::future::poll_fn;
use std::task::{Context, Poll};

/// A future that yields once.
#[derive(Debug, Default)]
pub(crate) struct YieldOnce {
    has_yielded: bool,
}

impl YieldOnce {
    /// Ready on the second poll, after all tasks that were ready at the first one have run.
    pub(crate) fn poll_yield(&mut self, context: &Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Yields until all tasks that are ready now have run.
pub(crate) async fn yield_once() {
    let mut yielding = YieldOnce::default();
    poll_fn(|context| yielding.poll_yield(context)).await;
}
