//! A stream of which only so many items are being handled at once.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use sluicegate_engine::{Limiter, Pass};

use super::held::Held;
use super::source::Source;

pin_project! {
    /// What [`StreamLimits::limit_in_flight`](super::StreamLimits::limit_in_flight) answers.
    #[must_use = "streams do nothing unless polled"]
    pub struct LimitInFlight<S: Stream> {
        #[pin]
        source: Source<S>,
        held: Held<S::Item>,
        limiter: Limiter,
    }
}

/// An item that is being handled, and the permit for that.
///
/// However the handling ends, dropping this gives the permit back, exactly once. The item is dropped first:
/// whatever it holds is free before the next item comes.
#[must_use = "dropping it lets the next item come"]
#[derive(Debug)]
pub struct InFlight<T> {
    item: T,
    permit: Permit,
}

/// Keeps an item in flight; dropping it lets the next one come.
#[must_use = "dropping it lets the next item come"]
pub struct Permit(Option<Pass>);

impl<T> InFlight<T> {
    /// The item and its permit, for handling that outlives the item or consumes it.
    pub fn into_parts(self) -> (T, Permit) {
        (self.item, self.permit)
    }

    /// The same permit for what became of the item.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> InFlight<U> {
        let Self { item, permit } = self;
        InFlight { item: change(item), permit }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permit").field(&self.0.as_ref().map(Pass::decision)).finish()
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
        Self { source: Source::new(source), held: Held::nothing(), limiter: limiter.clone() }
    }

    /// The source, and the item that was waiting for its turn.
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.source.into_stream(), self.held.into_item())
    }
}

impl<S: Stream> Stream for LimitInFlight<S> {
    type Item = InFlight<S::Item>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            // A cost of one fits every limit, so there is a permit in the end.
            if let Some((item, permit)) = ready!(this.held.poll(context)) {
                return Poll::Ready(Some(InFlight { item, permit: Permit(permit.ok()) }));
            }
            match ready!(this.source.as_mut().poll_next(context)) {
                Some(item) => this.held.hold(item, this.limiter.acquire()),
                None => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint(self.held.count())
    }
}

impl<S: Stream> FusedStream for LimitInFlight<S> {
    fn is_terminated(&self) -> bool {
        self.source.is_ended() && self.held.count() == 0
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for LimitInFlight<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.held.count() > 0;
        f.debug_struct("LimitInFlight")
            .field("source", self.source.stream())
            .field("limiter", &self.limiter)
            .field("waiting", &waiting)
            .finish()
    }
}
