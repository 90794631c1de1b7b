//! An answer that tells when its bytes go.
//!
//! A body of HTTP/2 can end long before its client has room for it: what is left waits inside hyper. Among
//! the bytes of the connection it cannot be told from answers to pings, so the data itself tells.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use hyper::body::Buf;
use pin_project_lite::pin_project;

use crate::activity::Activity;

pin_project! {
    /// The body of an answer. Without an activity, nobody is told.
    pub(crate) struct Sending<B> {
        #[pin]
        body: B,
        activity: Option<Arc<Activity>>,
    }
}

/// Data of an answer.
pub(crate) struct Part<D> {
    data: D,
    activity: Option<Arc<Activity>>,
}

impl<B> Sending<B> {
    pub(crate) const fn new(body: B, activity: Option<Arc<Activity>>) -> Self {
        Self { body, activity }
    }
}

impl<B: Body> Body for Sending<B> {
    type Data = Part<B::Data>;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, B::Error>>> {
        let this = self.project();
        let part = |data| Part { data, activity: this.activity.clone() };
        this.body.poll_frame(cx).map_ok(|frame| frame.map_data(part))
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
        }
    }
}
