//! The body of an answer, which keeps what the request holds until it has been sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use sluicegate_http::Paced;

use super::held::Held;

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
        held: Option<Box<Held>>,
    }
}

pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Served { #[pin] body: B },
        // Few are: it must not make all others larger.
        Paced { body: Pin<Box<Paced<B>>> },
        Own { body: Option<Bytes> },
    }
}

impl<B> LimitBody<B> {
    /// The body of a refusal.
    pub(super) fn own(body: Bytes) -> Self {
        Self { kind: Kind::Own { body: Some(body).filter(|body| !body.is_empty()) }, held: None }
    }

    /// The service's answer, with what is to be kept until its body ends.
    pub(super) fn answer(answer: Response<B>, held: Option<Box<Held>>) -> Response<Self> {
        let Some(mut held) = held else {
            return answer.map(|body| Self { kind: Kind::Served { body }, held: None });
        };
        held.answered(&answer);
        let meters = held.meters();
        answer.map(|body| {
            let kind = match meters.is_empty() {
                true => Kind::Served { body },
                false => Kind::Paced { body: Box::pin(Paced::new(body, meters)) },
            };
            Self { kind, held: Some(held) }
        })
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
            KindProjection::Paced { body } => ready!(body.as_mut().poll_frame(context)),
            KindProjection::Own { body } => body.take().map(|body| Ok(Frame::data(body))),
        };
        if let Some(held) = this.held {
            match &frame {
                Some(Ok(frame)) => frame.data_ref().into_iter().for_each(|data| held.received(data)),
                Some(Err(_)) => {}
                None => *this.held = None,
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Served { body } => body.is_end_stream(),
            Kind::Paced { body } => body.is_end_stream(),
            Kind::Own { body } => body.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Served { body } => body.size_hint(),
            Kind::Paced { body } => body.size_hint(),
            Kind::Own { body } => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
        }
    }
}
