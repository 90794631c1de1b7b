//! The service wrapper of the limit layer.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::LimitBody;
use super::future::{LimitFuture, RequestState};
use super::state::{LayerDecision, LayerState};

/// A rate-limited service. Created by [`LimitLayer`](super::LimitLayer).
#[derive(Clone, Debug)]
pub struct LimitService<S> {
    inner: S,
    state: Arc<LayerState>,
}

impl<S> LimitService<S> {
    pub(super) const fn new(inner: S, state: Arc<LayerState>) -> Self {
        Self { inner, state }
    }
}

impl<S, ReqBody, ResBody> Service<Request<ReqBody>> for LimitService<S>
where
    S: Service<Request<ReqBody>, Response = Response<ResBody>> + Clone,
    ResBody: Body,
{
    type Response = Response<LimitBody<ResBody>>;
    type Error = S::Error;
    type Future = LimitFuture<S, ReqBody>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    // Not inlined: the future is large, and a call writes it to its final location.
    #[inline(never)]
    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        match self.state.decide(&request) {
            LayerDecision::Admit(fields, guard) => {
                LimitFuture { inner: Some(self.inner.call(request)), state: RequestState::Serving(fields, guard) }
            }
            LayerDecision::Refuse(response) => LimitFuture::refused(response),
            LayerDecision::Wait(admission) => {
                // The instance that was polled ready waits with the request; a clone replaces it.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                LimitFuture::waiting(admission, ready, request, Arc::clone(&self.state))
            }
        }
    }
}
