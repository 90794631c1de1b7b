//! A stream held to a rate.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use pin_project_lite::pin_project;
use sluicegate_engine::{Batch, Limiter};

use super::held::Held;
use super::source::Source;

pin_project! {
    /// What [`StreamLimits::paced`](super::StreamLimits::paced) answers.
    #[must_use = "streams do nothing unless polled"]
    pub struct Paced<S: Stream> {
        #[pin]
        source: Source<S>,
        batch: Batch,
        held: Held<S::Item>,
        limiter: Limiter,
    }
}

impl<S: Stream> Paced<S> {
    pub(super) fn new(source: S, limiter: &Limiter) -> Self {
        Self { source: Source::new(source), batch: limiter.batch(), held: Held::nothing(), limiter: limiter.clone() }
    }

    /// The source, and the item that was waiting for its turn.
    pub fn into_parts(self) -> (S, Option<S::Item>) {
        (self.source.into_stream(), self.held.into_item())
    }
}

impl<S: Stream> Stream for Paced<S> {
    type Item = S::Item;

    #[inline]
    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if this.held.count() > 0 {
            return this.held.poll_out(context);
        }
        match this.source.poll_next(context) {
            Poll::Ready(Some(item)) => {
                if this.batch.take(1) {
                    return Poll::Ready(Some(item));
                }
                this.held.hold(item, this.limiter.acquire());
                this.held.poll_out(context)
            }
            nothing => {
                this.batch.give_back();
                nothing
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.source.size_hint(self.held.count())
    }
}

impl<S: Stream> FusedStream for Paced<S> {
    fn is_terminated(&self) -> bool {
        self.source.is_ended() && self.held.count() == 0
    }
}

impl<S: Stream + fmt::Debug> fmt::Debug for Paced<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.held.count() > 0;
        f.debug_struct("Paced")
            .field("source", self.source.stream())
            .field("limiter", &self.limiter)
            .field("waiting", &waiting)
            .finish()
    }
}
