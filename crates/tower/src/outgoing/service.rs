//! The calling side as a tower layer.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::Outgoing;
use super::body::OutgoingBody;
use super::call::Call;

/// What anything can have gone wrong with; [`super::Limited`] if the call was not made.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A client whose calls are limited. Clones share everything with the [`Outgoing`] they come from.
#[derive(Clone, Debug)]
pub struct OutgoingService<S> {
    inner: S,
    outgoing: Outgoing,
}

impl<S> Layer<S> for Outgoing {
    type Service = OutgoingService<S>;

    fn layer(&self, inner: S) -> OutgoingService<S> {
        OutgoingService { inner, outgoing: self.clone() }
    }
}

impl<S, B, R> Service<Request<B>> for OutgoingService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Send + 'static,
    R: Body,
{
    type Response = Response<OutgoingBody<R>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    /// Always ready. The client beneath is only asked once the call may be made: whoever waits here
    /// must not keep a place there.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        let outgoing = self.outgoing.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let call = Call::new(&parts.method, &parts.uri, &parts.headers);
            let ready = move || {
                let mut inner = inner.clone();
                async move {
                    poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
                    Ok::<_, BoxError>(inner)
                }
            };
            let (departed, mut ready) = outgoing.depart(&call, ready).await?;
            let response = ready.call(Request::from_parts(parts, body)).await.map_err(Into::into)?;
            let held = departed.answered(response.status(), response.headers());
            Ok(response.map(|body| OutgoingBody::new(body, held)))
        })
    }
}
