//! The service around the limited one.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::LimitBody;
use super::future::LimitFuture;
use super::gate::Gate;
use super::held::Held;

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

    fn call(&mut self, request: Request<ReqBody>) -> Self::Future {
        let mut admission = self.gate.admit(&request);
        // An outcome is large: it is looked at where it is, and only moved if it must be kept.
        match admission.decided() {
            Some(outcome) if outcome.is_admitted() => {
                let fields = self.gate.renderer().fields(outcome);
                let held = match outcome.is_held() {
                    true => admission.take().map(|outcome| Held::of(outcome, request.headers())),
                    false => None,
                };
                LimitFuture::admitted(self.inner.call(request), fields, held)
            }
            Some(outcome) => LimitFuture::refused(self.gate.refuse(&request, outcome)),
            None => {
                // The one that was told to be ready waits with the request; its clone takes its place.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                LimitFuture::waiting(admission, ready, request, Arc::clone(&self.gate))
            }
        }
    }
}
