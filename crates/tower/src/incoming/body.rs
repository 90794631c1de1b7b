//! The body of an answer, which keeps what the request holds until it has been sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Extensions;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use sluicegate_engine::Outcome;

/// What a request really cost, put by the service among its answer's extensions. Rules with an estimated
/// cost are settled to it when the answer has been sent.
///
/// ```
/// use sluicegate_tower::ActualCost;
///
/// let mut answer = http::Response::new("...");
/// answer.extensions_mut().insert(ActualCost(420)); // tokens, rows, bytes: whatever the rule counts
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActualCost(pub u64);

pin_project! {
    /// The body of an answer: the service's own, or that of a refusal.
    #[derive(Debug)]
    pub struct LimitBody<B> {
        #[pin]
        kind: Kind<B>,
        held: Option<Held>,
    }
}

pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Served { #[pin] body: B },
        Own { body: Option<Bytes> },
    }
}

/// What is given back at the end.
#[derive(Debug)]
struct Held {
    outcome: Option<Box<Outcome>>,
    actual: Option<ActualCost>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let (Some(outcome), Some(ActualCost(actual))) = (self.outcome.take(), self.actual) {
            outcome.settle(actual);
        }
    }
}

impl<B> LimitBody<B> {
    /// The body of a refusal.
    pub(super) fn own(body: Bytes) -> Self {
        Self { kind: Kind::Own { body: Some(body).filter(|body| !body.is_empty()) }, held: None }
    }

    /// The service's body, with what is to be kept until it ends.
    pub(super) fn served(body: B, held: Option<Box<Outcome>>, extensions: &Extensions) -> Self {
        let held = held.map(|outcome| Held { outcome: Some(outcome), actual: extensions.get().copied() });
        Self { kind: Kind::Served { body }, held }
    }
}

impl<B> Body for LimitBody<B>
where
    B: Body<Data = Bytes>,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let frame = match this.kind.project() {
            KindProjection::Served { body } => ready!(body.poll_frame(context)),
            KindProjection::Own { body } => body.take().map(|body| Ok(Frame::data(body))),
        };
        if frame.is_none() {
            *this.held = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Served { body } => body.is_end_stream(),
            Kind::Own { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Served { body } => body.size_hint(),
            Kind::Own { body } => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
        }
    }
}
