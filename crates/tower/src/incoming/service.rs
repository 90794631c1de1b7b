//! The service around the limited one.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::LimitBody;
use super::future::{LimitFuture, State};
use super::gate::{Answer, Gate};

/// A service behind rules. Made by [`LimitLayer`](super::LimitLayer).
#[derive(Clone, Debug)]
pub struct LimitService<S> {
    inner: S,
    gate: Arc<Gate>,
}

impl<S> LimitService<S> {
    pub(super) const fn new(inner: S, gate: Arc<Gate>) -> Self {
        Self { inner, gate }
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

    // Not inlined: the future is large, and a call writes it where the caller wants it.
    #[inline(never)]
    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        match self.gate.ask(&request) {
            Answer::Go(fields, held) => {
                LimitFuture { answer: Some(self.inner.call(request)), state: State::Serving(fields, held) }
            }
            Answer::Refused(answer) => LimitFuture::refused(answer),
            Answer::Wait(admission) => {
                // The one that was told to be ready waits with the request; its clone takes its place.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                LimitFuture::waiting(admission, ready, request, Arc::clone(&self.gate))
            }
        }
    }
}
