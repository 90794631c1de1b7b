//! Response body that keeps the request's permits until it has been sent.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use sluicegate_http_adapter::{PacedBody, RequestGuard};

/// The actual cost of a request, set by the service as a response extension. Rules with an estimated
/// cost are settled to it once the response has been sent.
///
/// ```
/// use sluicegate_tower::ActualCost;
///
/// let mut response = http::Response::new("...");
/// response.extensions_mut().insert(ActualCost(420)); // tokens, rows, bytes: the unit of the rule
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActualCost(pub u64);

pin_project! {
    /// Response body: the service's own, or that of a refusal.
    #[derive(Debug)]
    pub struct LimitBody<B> {
        #[pin]
        kind: Kind<B>,
        guard: Option<Box<RequestGuard>>,
    }
}

pin_project! {
    #[project = KindProjection]
    #[derive(Debug)]
    enum Kind<B> {
        Served { #[pin] body: B },
        // Boxed: paced bodies are rare and must not enlarge the others.
        Paced { body: Pin<Box<PacedBody<B>>> },
        Own { body: Option<Bytes> },
    }
}

impl<B> LimitBody<B> {
    /// The body of a refusal.
    pub(super) fn refusal(body: Bytes) -> Self {
        Self { kind: Kind::Own { body: Some(body).filter(|body| !body.is_empty()) }, guard: None }
    }

    /// Wraps the service's response; the guard is kept until the body ends.
    pub(super) fn response(response: Response<B>, guard: Option<Box<RequestGuard>>) -> Response<Self> {
        let Some(mut guard) = guard else {
            return response.map(|body| Self { kind: Kind::Served { body }, guard: None });
        };
        guard.record_response(response.status(), response.headers());
        if let Some(ActualCost(actual)) = response.extensions().get() {
            guard.report_cost(*actual);
        }
        let meters = guard.meters();
        response.map(|body| {
            let kind = match meters.is_empty() {
                true => Kind::Served { body },
                false => Kind::Paced { body: Box::pin(PacedBody::new(body, meters)) },
            };
            Self { kind, guard: Some(guard) }
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
        if let Some(guard) = this.guard {
            match &frame {
                Some(Ok(frame)) => frame.data_ref().into_iter().for_each(|data| guard.record_data(data)),
                Some(Err(_)) => {}
                None => *this.guard = None,
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
