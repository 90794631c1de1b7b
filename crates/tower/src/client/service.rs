//! The client-side limit as a tower layer.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use tower_layer::Layer;
use tower_service::Service;

use super::ClientLimit;
use super::body::OutgoingBody;
use super::call::Call;

/// Any error of a call; [`super::Limited`] if the call was not made.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A rate-limited client. Clones share everything with their [`ClientLimit`].
#[derive(Clone, Debug)]
pub struct ClientLimitService<S> {
    inner: S,
    limit: ClientLimit,
}

impl<S> Layer<S> for ClientLimit {
    type Service = ClientLimitService<S>;

    fn layer(&self, inner: S) -> ClientLimitService<S> {
        ClientLimitService { inner, limit: self.clone() }
    }
}

impl<S, B, R> Service<Request<B>> for ClientLimitService<S>
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

    /// Always ready. The inner client is only polled once the call may be made: a call waiting here
    /// must not hold a permit there.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        let limit = self.limit.clone();
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
            let (sent, mut ready) = limit.acquire(&call, ready).await?;
            let response = ready.call(Request::from_parts(parts, body)).await.map_err(Into::into)?;
            let guard = sent.on_response(response.status(), response.headers());
            Ok(response.map(|body| OutgoingBody::new(body, guard)))
        })
    }
}
