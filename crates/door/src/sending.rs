//! An answer that tells when its bytes go.
//!
//! A body of HTTP/2 can end long before its client has room for it: what is left waits inside hyper. Among
//! the bytes of the connection it cannot be told from answers to pings, so the data itself tells.
//!
//! A body of HTTP/2 whose data was taken and that is not asked for more has a client that gives it no room.
//! That is noted too, with the time; a body that has no data to give is the service's affair. On HTTP/1 the
//! socket tells as much.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use hyper::body::Buf;
use pin_project_lite::pin_project;

use crate::activity::{Activity, HandedOut};

pin_project! {
    /// The body of an answer. Without an activity, nobody is told.
    pub(crate) struct Sending<B> {
        #[pin]
        body: B,
        activity: Option<Arc<Activity>>,
        handed_out: Option<HandedOut>,
    }
}

/// Data of an answer.
pub(crate) struct Part<D> {
    data: D,
    // Of HTTP/2 only.
    activity: Option<Arc<Activity>>,
    handed_out: Option<u64>,
}

impl<B> Sending<B> {
    /// Of HTTP/2 with the connection's activity; of HTTP/1 without.
    pub(crate) const fn new(body: B, activity: Option<Arc<Activity>>) -> Self {
        Self { body, activity, handed_out: None }
    }
}

impl<B: Body> Body for Sending<B> {
    type Data = Part<B::Data>;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, B::Error>>> {
        let mut this = self.project();
        *this.handed_out = None;
        let frame = this.body.as_mut().poll_frame(cx);
        let Some(activity) = &*this.activity else {
            return frame.map_ok(|frame| frame.map_data(|data| Part { data, activity: None, handed_out: None }));
        };
        if let Poll::Ready(Some(Ok(_))) = &frame
            && !this.body.is_end_stream()
        {
            *this.handed_out = Some(activity.hand_out());
        }
        let handed_out = this.handed_out.as_ref().map(HandedOut::id);
        frame.map_ok(|frame| frame.map_data(|data| Part { data, activity: Some(Arc::clone(activity)), handed_out }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<D: Buf> Buf for Part<D> {
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
            activity.answered();
            if let Some(id) = self.handed_out {
                activity.moved(id);
            }
        }
    }
}
