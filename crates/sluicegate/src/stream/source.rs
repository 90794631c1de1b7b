//! A source stream that is not polled after its end.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pin_project_lite::pin_project;

pin_project! {
    /// The stream whose items are limited.
    pub(super) struct SourceStream<S> {
        #[pin]
        stream: S,
        ended: bool,
    }
}

impl<S: Stream> SourceStream<S> {
    pub(super) const fn new(stream: S) -> Self {
        Self { stream, ended: false }
    }

    #[inline]
    pub(super) fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let this = self.project();
        if *this.ended {
            return Poll::Ready(None);
        }
        let polled = this.stream.poll_next(context);
        if let Poll::Ready(None) = polled {
            *this.ended = true;
        }
        polled
    }

    /// Size hint of the source, plus the number of buffered items.
    pub(super) fn size_hint(&self, buffered: usize) -> (usize, Option<usize>) {
        let (min, max) = if self.ended { (0, Some(0)) } else { self.stream.size_hint() };
        (min.saturating_add(buffered), max.and_then(|max| max.checked_add(buffered)))
    }

    pub(super) const fn is_ended(&self) -> bool {
        self.ended
    }

    pub(super) const fn stream(&self) -> &S {
        &self.stream
    }

    pub(super) fn into_stream(self) -> S {
        self.stream
    }
}
