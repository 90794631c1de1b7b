//! Response body that holds a guard until it ends.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A response body with a guard that is released when the body ends or is dropped. Empty if the request was
    /// refused.
    pub struct GuardedBody<B, G> {
        #[pin]
        body: Option<B>,
        guard: Option<G>,
    }
}

impl<B, G> GuardedBody<B, G> {
    pub(crate) const fn new(body: B, guard: Option<G>) -> Self {
        Self { body: Some(body), guard }
    }

    pub(crate) const fn empty() -> Self {
        Self { body: None, guard: None }
    }
}

impl<B: Body, G> Body for GuardedBody<B, G> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let Some(body) = this.body.as_pin_mut() else { return Poll::Ready(None) };
        let frame = body.poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = frame {
            this.guard.take();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B, G> fmt::Debug for GuardedBody<B, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").finish_non_exhaustive()
    }
}
