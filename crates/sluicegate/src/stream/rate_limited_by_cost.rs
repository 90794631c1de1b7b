//! A stream with a rate limit and a cost per item.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use sluicegate_engine::{Limiter, TokenBatch};
use thiserror::Error;

use super::buffered_item::BufferedItem;
use super::source::SourceStream;

pin_project! {
    /// Stream returned by [`StreamRateLimitExt::rate_limit_by_cost`](super::StreamRateLimitExt::rate_limit_by_cost).
    #[must_use = "streams do nothing unless polled"]
    pub struct RateLimitedByCost<S: Stream, F> {
        #[pin]
        source: SourceStream<S>,
        batch: TokenBatch,
        cost: F,
        buffered: BufferedItem<(S::Item, u64)>,
        limiter: Limiter,
    }
}

/// An item whose cost exceeds the limit, so that it can never be admitted. Split it, raise the limit, or process it
/// without the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the cost {cost} of an item exceeds the limit: split the item or raise the limit")]
pub struct TooLarge<T> {
    /// The item.
    pub item: T,
    /// Cost of the item.
    pub cost: u64,
}

impl<S: Stream, F> RateLimitedByCost<S, F> {
    pub(super) fn new(source: S, limiter: &Limiter, cost: F) -> Self {
        let (batch, limiter) = (limiter.batch(), limiter.clone());
        Self { source: SourceStream::new(source), batch, cost, buffered: BufferedItem::empty(), limiter }
    }

    /// Returns the source, and the item that was waiting.
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.source.into_stream(), self.buffered.into_item().map(|(item, _)| item))
    }
}

impl<S: Stream, F: FnMut(&S::Item) -> u64> Stream for RateLimitedByCost<S, F> {
    type Item = Result<S::Item, TooLarge<S::Item>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        loop {
            if let Some(((item, cost), permit)) = ready!(this.buffered.poll(context)) {
                return Poll::Ready(Some(match permit {
                    Ok(_permit) => Ok(item),
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
            this.buffered.hold((item, cost), this.limiter.acquire().cost(cost));
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint(self.buffered.count())
    }
}

impl<S: Stream, F: FnMut(&S::Item) -> u64> FusedStream for RateLimitedByCost<S, F> {
    fn is_terminated(&self) -> bool {
        self.source.is_ended() && self.buffered.count() == 0
    }
}

impl<S: Stream + fmt::Debug, F> fmt::Debug for RateLimitedByCost<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.buffered.count() > 0;
        f.debug_struct("RateLimitedByCost")
            .field("source", self.source.stream())
            .field("limiter", &self.limiter)
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}
