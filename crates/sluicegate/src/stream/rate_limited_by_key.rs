//! A stream with a rate limit per key.

use std::fmt;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use sluicegate_engine::KeyedLimiter;

use super::buffered_item::BufferedItem;
use super::source::SourceStream;

pin_project! {
    /// Stream returned by [`StreamRateLimitExt::rate_limit_by_key`](super::StreamRateLimitExt::rate_limit_by_key).
    #[must_use = "streams do nothing unless polled"]
    pub struct RateLimitedByKey<S: Stream, K: ?Sized, F> {
        #[pin]
        source: SourceStream<S>,
        key: F,
        buffered: BufferedItem<S::Item>,
        limiter: KeyedLimiter<K>,
    }
}

impl<S: Stream, K: ?Sized, F> RateLimitedByKey<S, K, F> {
    pub(super) fn new(source: S, limiter: &KeyedLimiter<K>, key: F) -> Self {
        Self { source: SourceStream::new(source), key, buffered: BufferedItem::empty(), limiter: limiter.clone() }
    }

    /// Returns the source, and the item that was waiting.
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.source.into_stream(), self.buffered.into_item())
    }
}

impl<S, K, F> Stream for RateLimitedByKey<S, K, F>
where
    S: Stream,
    K: Hash + ?Sized,
    F: FnMut(&S::Item) -> &K,
{
    type Item = S::Item;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let mut this = self.project();
        loop {
            // A cost of one fits every limit, so the item is always admitted eventually.
            if let Some((item, _permit)) = ready!(this.buffered.poll(context)) {
                return Poll::Ready(Some(item));
            }
            match ready!(this.source.as_mut().poll_next(context)) {
                Some(item) => {
                    let acquire = this.limiter.acquire((this.key)(&item));
                    this.buffered.hold(item, acquire);
                }
                None => return Poll::Ready(None),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint(self.buffered.count())
    }
}

impl<S, K, F> FusedStream for RateLimitedByKey<S, K, F>
where
    S: Stream,
    K: Hash + ?Sized,
    F: FnMut(&S::Item) -> &K,
{
    fn is_terminated(&self) -> bool {
        self.source.is_ended() && self.buffered.count() == 0
    }
}

impl<S: Stream + fmt::Debug, K: ?Sized, F> fmt::Debug for RateLimitedByKey<S, K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.buffered.count() > 0;
        f.debug_struct("RateLimitedByKey")
            .field("source", self.source.stream())
            .field("limiter", &self.limiter)
            .field("waiting", &waiting)
            .finish_non_exhaustive()
    }
}
