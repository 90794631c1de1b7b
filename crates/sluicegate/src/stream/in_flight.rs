//! A stream with a limit on the number of items in flight.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use sluicegate_engine::{Limiter, Permit};

use super::buffered_item::BufferedItem;
use super::source::SourceStream;

pin_project! {
    /// Stream returned by [`StreamRateLimitExt::limit_in_flight`](super::StreamRateLimitExt::limit_in_flight).
    #[must_use = "streams do nothing unless polled"]
    pub struct LimitInFlight<S: Stream> {
        #[pin]
        source: SourceStream<S>,
        buffered: BufferedItem<S::Item>,
        limiter: Limiter,
    }
}

/// An item in flight, with its permit.
///
/// Dropping it releases the permit exactly once, also in a panic. The item is dropped first, so its resources are
/// free before the next item is yielded.
#[must_use = "dropping it releases the permit"]
#[derive(Debug)]
pub struct InFlight<T> {
    item: T,
    permit: InFlightPermit,
}

/// Keeps an item in flight; dropping it releases the permit.
#[must_use = "dropping it releases the permit"]
pub struct InFlightPermit(Option<Permit>);

impl<T> InFlight<T> {
    /// Returns the item and its permit, for processing that outlives or consumes the item.
    pub fn into_parts(self) -> (T, InFlightPermit) {
        (self.item, self.permit)
    }

    /// Maps the item and keeps the permit.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> InFlight<U> {
        let Self { item, permit } = self;
        InFlight { item: change(item), permit }
    }
}

impl fmt::Debug for InFlightPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightPermit").field(&self.0.as_ref().map(Permit::decision)).finish()
    }
}

impl<T> Deref for InFlight<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.item
    }
}

impl<T> DerefMut for InFlight<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.item
    }
}

impl<S: Stream> LimitInFlight<S> {
    pub(super) fn new(source: S, limiter: &Limiter) -> Self {
        Self { source: SourceStream::new(source), buffered: BufferedItem::empty(), limiter: limiter.clone() }
    }

    /// Returns the source, and the item that was waiting.
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.source.into_stream(), self.buffered.into_item())
    }
}

impl<S: Stream> Stream for LimitInFlight<S> {
    type Item = InFlight<S::Item>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            // A cost of one fits every limit, so the permit is always granted eventually.
            if let Some((item, permit)) = ready!(this.buffered.poll(context)) {
                return Poll::Ready(Some(InFlight { item, permit: InFlightPermit(permit.ok()) }));
            }
            match ready!(this.source.as_mut().poll_next(context)) {
                Some(item) => this.buffered.hold(item, this.limiter.acquire()),
                None => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint(self.buffered.count())
    }
}

impl<S: Stream> FusedStream for LimitInFlight<S> {
    fn is_terminated(&self) -> bool {
        self.source.is_ended() && self.buffered.count() == 0
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for LimitInFlight<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.buffered.count() > 0;
        f.debug_struct("LimitInFlight")
            .field("source", self.source.stream())
            .field("limiter", &self.limiter)
            .field("waiting", &waiting)
            .finish()
    }
}
