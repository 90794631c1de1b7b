//! Response future of a request: queued, in the service, or refused.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{Request, Response};
use pin_project_lite::pin_project;
use sluicegate_engine::overload::Completion;
use sluicegate_engine::sluice::Admission;
use sluicegate_http_adapter::RequestGuard;
use sluicegate_http_adapter::headers::RateLimitFields;
use tower_service::Service;

use super::body::LimitBody;
use super::state::{LayerState, guard};

pin_project! {
    /// Response future. Dropping it leaves the queue and releases permits.
    #[must_use = "futures do nothing unless polled"]
    pub struct LimitFuture<S: Service<Request<B>>, B> {
        // Large, and so not inside the state: moving the state would copy it.
        #[pin]
        pub(super) inner: Option<S::Future>,
        pub(super) state: RequestState<S, B>,
    }
}

/// State of a request.
pub(super) enum RequestState<S, B> {
    Waiting(Box<WaitingCall<S, B>>),
    /// In the service. The response gets these header fields and keeps the guard.
    Serving(RateLimitFields, Option<Box<RequestGuard>>),
    Refused(Box<Response<Bytes>>),
    Done,
}

/// A queued request, with the service that is ready for it.
pub(super) struct WaitingCall<S, B> {
    admission: Box<Admission>,
    service: S,
    request: Request<B>,
    layer_state: Arc<LayerState>,
}

impl<S: Service<Request<B>>, B> LimitFuture<S, B> {
    pub(super) const fn refused(response: Box<Response<Bytes>>) -> Self {
        Self { inner: None, state: RequestState::Refused(response) }
    }

    pub(super) fn waiting(admission: Box<Admission>, service: S, request: Request<B>, state: Arc<LayerState>) -> Self {
        let waiting = Box::new(WaitingCall { admission, service, request, layer_state: state });
        Self { inner: None, state: RequestState::Waiting(waiting) }
    }
}

impl<S, B, R> Future for LimitFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Output = Result<Response<LimitBody<R>>, S::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let RequestState::Waiting(waiting) = this.state {
            let outcome = ready!(Pin::new(&mut *waiting.admission).poll(context));
            let RequestState::Waiting(waiting) = mem::replace(this.state, RequestState::Done) else {
                return Poll::Pending;
            };
            let WaitingCall { mut service, request, layer_state, .. } = *waiting;
            *this.state = if outcome.is_admitted() {
                let fields = layer_state.renderer().fields(&outcome);
                let guard = outcome.holds_resources().then(|| guard(outcome, request.headers()));
                this.inner.set(Some(service.call(request)));
                RequestState::Serving(fields, guard)
            } else {
                RequestState::Refused(Box::new(layer_state.refuse(&request, &outcome)))
            };
        }
        if let Some(response) = this.inner.as_pin_mut() {
            let response = ready!(response.poll(context));
            return Poll::Ready(match (response, mem::replace(this.state, RequestState::Done)) {
                (Ok(response), RequestState::Serving(fields, guard)) => Ok(with_headers(response, fields, guard)),
                (Ok(response), _) => Ok(with_headers(response, RateLimitFields::default(), None)),
                (Err(error), state) => {
                    if let RequestState::Serving(_, Some(mut guard)) = state {
                        guard.record(Completion::Failed);
                    }
                    Err(error)
                }
            });
        }
        match mem::replace(this.state, RequestState::Done) {
            RequestState::Refused(response) => Poll::Ready(Ok((*response).map(LimitBody::refusal))),
            // Polled after completion.
            _ => Poll::Pending,
        }
    }
}

/// Adds the rate-limit headers to the response; the guard stays with its body.
fn with_headers<R>(
    response: Response<R>,
    fields: RateLimitFields,
    guard: Option<Box<RequestGuard>>,
) -> Response<LimitBody<R>> {
    // The service's actual cost is read before headers are added.
    let mut response = LimitBody::response(response, guard);
    fields.write(response.headers_mut());
    response
}
