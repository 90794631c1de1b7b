//! The one item a stream holds while it waits for its turn.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use sluicegate_engine::limiter::Acquiring;
use sluicegate_engine::{Acquire, Pass, Refused};

/// An item and its place in line, or neither.
pub(super) struct Held<I>(Option<Waiting<I>>);

struct Waiting<I> {
    item: I,
    turn: Acquiring,
}

impl<I> Held<I> {
    pub(super) const fn nothing() -> Self {
        Self(None)
    }

    /// How many items are held.
    pub(super) const fn count(&self) -> usize {
        self.0.is_some() as usize
    }

    /// Holds an item until its turn comes, however long the line is: streams are as many as the program
    /// made, and their items have nowhere else to wait.
    pub(super) fn hold(&mut self, item: I, turn: Acquire) {
        self.0 = Some(Waiting { item, turn: turn.even_if_full().into_future() });
    }

    /// The item once its turn has come, with what it was told. `Ready(None)` if nothing is held.
    #[inline(never)]
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(I, Result<Pass, Refused>)>> {
        let Some(waiting) = &mut self.0 else { return Poll::Ready(None) };
        let Poll::Ready(told) = Pin::new(&mut waiting.turn).poll(context) else { return Poll::Pending };
        Poll::Ready(self.0.take().map(|waiting| (waiting.item, told)))
    }

    /// The item once its turn has come. For items that cost one: that fits every limit, so the turn comes in
    /// the end, and whatever was taken for it is given back or spent with it.
    #[inline(never)]
    pub(super) fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<Option<I>> {
        self.poll(context).map(|turn| turn.map(|(item, _turn)| item))
    }

    pub(super) fn into_item(self) -> Option<I> {
        self.0.map(|waiting| waiting.item)
    }
}
