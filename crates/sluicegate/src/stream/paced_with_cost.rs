//! A stream held to a rate of something that items have more or less of.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use sluicegate_engine::{Batch, Limiter};
use thiserror::Error;

use super::held::Held;
use super::source::Source;

pin_project! {
    /// What [`StreamLimits::paced_with_cost`](super::StreamLimits::paced_with_cost) answers.
    #[must_use = "streams do nothing unless polled"]
    pub struct PacedWithCost<S: Stream, F> {
        #[pin]
        source: Source<S>,
        batch: Batch,
        cost: F,
        held: Held<(S::Item, u64)>,
        limiter: Limiter,
    }
}

/// An item that costs more than the limit itself: its turn would never come. Split it, raise the limit, or
/// let it through by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an item costs {cost}, more than the limit itself: split it or raise the limit")]
pub struct TooLarge<T> {
    /// The item.
    pub item: T,
    /// What it costs.
    pub cost: u64,
}

impl<S: Stream, F> PacedWithCost<S, F> {
    pub(super) fn new(source: S, limiter: &Limiter, cost: F) -> Self {
        let (batch, limiter) = (limiter.batch(), limiter.clone());
        Self { source: Source::new(source), batch, cost, held: Held::nothing(), limiter }
    }

    /// The source, and the item that was waiting for its turn.
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.source.into_stream(), self.held.into_item().map(|(item, _)| item))
    }
}

impl<S: Stream, F: FnMut(&S::Item) -> u64> Stream for PacedWithCost<S, F> {
    type Item = Result<S::Item, TooLarge<S::Item>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            if let Some(((item, cost), turn)) = ready!(this.held.poll(context)) {
                return Poll::Ready(Some(match turn {
                    Ok(_turn) => Ok(item),
                    Err(_never) => Err(TooLarge { item, cost }),
                }));
            }
            let Poll::Ready(Some(item)) = this.source.as_mut().poll_next(context) else {
                this.batch.give_back();
                return if this.source.is_ended() { Poll::Ready(None) } else { Poll::Pending };
            };
            let cost = (this.cost)(&item);
            if this.batch.take(cost) {
                return Poll::Ready(Some(Ok(item)));
            }
            this.held.hold((item, cost), this.limiter.acquire().cost(cost));
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint(self.held.count())
    }
}

impl<S: Stream, F: FnMut(&S::Item) -> u64> FusedStream for PacedWithCost<S, F> {
    fn is_terminated(&self) -> bool {
        self.source.is_ended() && self.held.count() == 0
    }
}

impl<S: Stream + fmt::Debug, F> fmt::Debug for PacedWithCost<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.held.count() > 0;
        f.debug_struct("PacedWithCost")
            .field("source", self.source.stream())
            .field("limiter", &self.limiter)
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}
