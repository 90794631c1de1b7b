//! Hyper service that tracks the start and end of requests.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONNECTION, HeaderValue};
use http::{Method, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;

use super::activity::{Activity, InFlightGuard};
use super::tracked_body::TrackedBody;
use crate::limits::GuardedBody;

/// The service of one connection, with its requests recorded in the activity.
pub(crate) struct TrackActivity<S> {
    inner: S,
    activity: Arc<Activity>,
}

impl<S> TrackActivity<S> {
    pub(crate) const fn new(inner: S, activity: Arc<Activity>) -> Self {
        Self { inner, activity }
    }
}

impl<S, B> Service<Request<Incoming>> for TrackActivity<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<TrackedBody<GuardedBody<B, InFlightGuard>>>;
    type Error = S::Error;
    type Future = TrackedRequest<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let http2 = request.version() == Version::HTTP_2;
        let in_flight = self.activity.begin_request(http2, request.body().is_end_stream());
        let is_connect = request.method() == Method::CONNECT;
        TrackedRequest { response: self.inner.call(request), in_flight: Some(in_flight), http2, is_connect }
    }
}

pin_project! {
    /// A request that counts as in flight until its response body ends.
    pub(crate) struct TrackedRequest<F> {
        #[pin]
        response: F,
        in_flight: Option<InFlightGuard>,
        http2: bool,
        is_connect: bool,
    }
}

impl<F, B, E> Future for TrackedRequest<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<TrackedBody<GuardedBody<B, InFlightGuard>>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.response.poll(context).map(|response| {
            let in_flight = this.in_flight.take();
            response.map(|mut response| {
                let activity = in_flight.as_ref().map(InFlightGuard::activity);
                if let Some(activity) = &activity {
                    if *this.http2 && *this.is_connect && response.status().is_success() {
                        activity.mark_tunnel();
                    }
                    if !*this.http2 && activity.is_closing() {
                        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                }
                let activity = activity.filter(|_| *this.http2).map(Arc::clone);
                response.map(|body| TrackedBody::new(GuardedBody::new(body, in_flight), activity))
            })
        })
    }
}
