//! Response body that reports when its bytes are written.
//!
//! An HTTP/2 body can end long before the client has window for it: the remaining data waits inside hyper. On
//! the connection it is indistinguishable from ping replies, so the data itself records its progress.
//!
//! If hyper has taken data of an HTTP/2 body and does not ask for more, the client gives it no flow-control
//! window. That is recorded with its time; a body without data is the service's responsibility. On HTTP/1 the
//! socket shows the same.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use hyper::body::Buf;
use pin_project_lite::pin_project;

use super::activity::{Activity, UnreadDataGuard};

pin_project! {
    /// A tracked response body. Without an activity, nothing is recorded.
    pub(crate) struct TrackedBody<B> {
        #[pin]
        body: B,
        activity: Option<Arc<Activity>>,
        handed_out: Option<UnreadDataGuard>,
    }
}

/// A chunk of response data.
pub(crate) struct TrackedChunk<D> {
    data: D,
    // HTTP/2 only.
    activity: Option<Arc<Activity>>,
    unread_id: Option<u64>,
}

impl<B> TrackedBody<B> {
    /// Tracks an HTTP/2 body in the connection's activity; pass `None` for HTTP/1.
    pub(crate) const fn new(body: B, activity: Option<Arc<Activity>>) -> Self {
        Self { body, activity, handed_out: None }
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = TrackedChunk<B::Data>;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, B::Error>>> {
        let mut this = self.project();
        *this.handed_out = None;
        let frame = this.body.as_mut().poll_frame(cx);
        let Some(activity) = &*this.activity else {
            return frame.map_ok(|frame| frame.map_data(|data| TrackedChunk { data, activity: None, unread_id: None }));
        };
        if let Poll::Ready(Some(Ok(_))) = &frame
            && !this.body.is_end_stream()
        {
            *this.handed_out = Some(activity.track_unread());
        }
        let handed_out = this.handed_out.as_ref().map(UnreadDataGuard::id);
        frame.map_ok(|frame| {
            frame.map_data(|data| TrackedChunk { data, activity: Some(Arc::clone(activity)), unread_id: handed_out })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<D: Buf> Buf for TrackedChunk<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.data.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.data.advance(count);
        if let Some(activity) = &self.activity {
            activity.record_response_progress();
            if let Some(id) = self.unread_id {
                activity.record_unread_progress(id);
            }
        }
    }
}
