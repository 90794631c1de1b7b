//! The item that a stream holds while it waits in the queue.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll};

use sluicegate_engine::limiter::AcquireFuture;
use sluicegate_engine::{Acquire, AcquireError, Permit};

/// A waiting item with its acquire future, or nothing.
pub(super) struct BufferedItem<I>(Option<WaitingItem<I>>);

struct WaitingItem<I> {
    item: I,
    acquire: AcquireFuture,
}

impl<I> BufferedItem<I> {
    pub(super) const fn empty() -> Self {
        Self(None)
    }

    /// Number of buffered items: 0 or 1.
    pub(super) const fn count(&self) -> usize {
        self.0.is_some() as usize
    }

    /// Holds an item until it is admitted, regardless of the queue length: the program bounds the number of streams,
    /// and their items have nowhere else to wait.
    pub(super) fn hold(&mut self, item: I, acquire: Acquire) {
        self.0 = Some(WaitingItem { item, acquire: acquire.even_if_full().into_future() });
    }

    /// Returns the item with its permit or error once it is decided. `Ready(None)` if no item is held.
    #[inline(never)]
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<(I, Result<Permit, AcquireError>)>> {
        let Some(waiting) = &mut self.0 else { return Poll::Ready(None) };
        let Poll::Ready(result) = Pin::new(&mut waiting.acquire).poll(context) else { return Poll::Pending };
        Poll::Ready(self.0.take().map(|waiting| (waiting.item, result)))
    }

    /// Returns the item once it is admitted. For items with a cost of one, which fits every limit, so that the item is
    /// always admitted eventually. The permit is dropped.
    #[inline(never)]
    pub(super) fn poll_out(&mut self, context: &mut Context<'_>) -> Poll<Option<I>> {
        self.poll(context).map(|decided| decided.map(|(item, _permit)| item))
    }

    pub(super) fn into_item(self) -> Option<I> {
        self.0.map(|waiting| waiting.item)
    }
}
