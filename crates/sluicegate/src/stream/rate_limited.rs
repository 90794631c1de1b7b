//! A stream with a rate limit.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use sluicegate_engine::{Limiter, TokenBatch};

use super::buffered_item::BufferedItem;
use super::source::SourceStream;

pin_project! {
    /// Stream returned by [`StreamRateLimitExt::rate_limit`](super::StreamRateLimitExt::rate_limit).
    #[must_use = "streams do other unless polled"]
    pub struct RateLimited<S: Stream> {
        #[pin]
        source: SourceStream<S>,
        batch: TokenBatch,
        buffered: BufferedItem<S::Item>,
        limiter: Limiter,
    }
}

impl<S: Stream> RateLimited<S> {
    pub(super) fn new(source: S, limiter: &Limiter) -> Self {
        Self {
            source: SourceStream::new(source),
            batch: limiter.batch(),
            buffered: BufferedItem::empty(),
            limiter: limiter.clone(),
        }
    }

    /// Returns the source, and the item that was waiting.
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.source.into_stream(), self.buffered.into_item())
    }
}

impl<S: Stream> Stream for RateLimited<S> {
    type Item = S::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if this.buffered.count() > 0 {
            return this.buffered.poll_out(context);
        }
        match this.source.poll_next(context) {
            Poll::Ready(Some(item)) => {
                if this.batch.take(1) {
                    return Poll::Ready(Some(item));
                }
                this.buffered.hold(item, this.limiter.acquire());
                this.buffered.poll_out(context)
            }
            other => {
                this.batch.give_back();
                other
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint(self.buffered.count())
    }
}

impl<S: Stream> FusedStream for RateLimited<S> {
    fn is_terminated(&self) -> bool {
        self.source.is_ended() && self.buffered.count() == 0
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for RateLimited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.buffered.count() > 0;
        f.debug_struct("RateLimited")
            .field("source", self.source.stream())
            .field("limiter", &self.limiter)
            .field("waiting", &waiting)
            .finish()
    }
}
