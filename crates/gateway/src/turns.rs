//! Letting others go first.
//!
//! First everybody reads, then everybody writes: a connection with something to write lets all others of its thread go
//! first that are ready. To write wakes somebody elsewhere, who takes the core or asks for the next thing while others
//! still wait for their first; and doing one thing many times over is cheaper than two by turns.

use std::future::poll_fn;
use std::task::{Context, Poll};

/// A turn that is let pass once.
#[derive(Debug, Default)]
pub(crate) struct Courtesy {
    is_done: bool,
}

impl Courtesy {
    /// Ready when all others have had their turn who were ready when it was asked first.
    pub(crate) fn poll_done(&mut self, context: &Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.is_done, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Waits until all others have had their turn who are ready now.
pub(crate) async fn after_others() {
    let mut courtesy = Courtesy::default();
    poll_fn(|context| courtesy.poll_done(context)).await;
}
