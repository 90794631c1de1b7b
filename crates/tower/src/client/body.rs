//! Response body that holds the call's permits until it has been read.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use sluicegate_engine::Outcome;

use super::ClientLimit;
use super::destination::Destination;

pin_project! {
    /// Response body. The call's permits are released when it ends, fails or is dropped.
    #[derive(Debug)]
    pub struct OutgoingBody<B> {
        #[pin]
        inner: B,
        guard: Option<ResponseGuard>,
    }
}

/// Guard of a call until its response has been read.
#[derive(Debug)]
pub(crate) struct ResponseGuard {
    pub(super) _permits: Outcome,
    pub(super) destination: Arc<Destination>,
    pub(super) limit: ClientLimit,
}

impl<B: Body> OutgoingBody<B> {
    pub(crate) fn new(inner: B, guard: ResponseGuard) -> Self {
        // An empty body is never read.
        let guard = (!inner.is_end_stream()).then_some(guard);
        Self { inner, guard }
    }
}

impl<B: Body> Body for OutgoingBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let mut this = self.project();
        let polled = this.inner.as_mut().poll_frame(context);
        match &polled {
            Poll::Pending => {}
            Poll::Ready(None | Some(Err(_))) => *this.guard = None,
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(trailers), Some(guard)) = (frame.trailers_ref(), &this.guard) {
                    guard.limit.apply_trailers(&guard.destination, trailers);
                }
                if this.inner.is_end_stream() {
                    *this.guard = None;
                }
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
