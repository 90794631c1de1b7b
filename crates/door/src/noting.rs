//! Notes when requests begin and end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONNECTION, HeaderValue};
use http::{Method, Request, Response, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;

use crate::activity::{Activity, UnderWay};
use crate::held::Held;
use crate::sending::Sending;

/// A service of one connection whose requests are noted.
pub(crate) struct Noting<S> {
    inner: S,
    activity: Arc<Activity>,
}

impl<S> Noting<S> {
    pub(crate) const fn new(inner: S, activity: Arc<Activity>) -> Self {
        Self { inner, activity }
    }
}

impl<S, B> Service<Request<Incoming>> for Noting<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<Sending<Held<B, UnderWay>>>;
    type Error = S::Error;
    type Future = Noted<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let http2 = request.version() == Version::HTTP_2;
        let under_way = self.activity.begin(http2, request.body().is_end_stream());
        let connects = request.method() == Method::CONNECT;
        Noted { answer: self.inner.call(request), under_way: Some(under_way), http2, connects }
    }
}

pin_project! {
    /// A request that is under way until its answer has ended.
    pub(crate) struct Noted<F> {
        #[pin]
        answer: F,
        under_way: Option<UnderWay>,
        http2: bool,
        connects: bool,
    }
}

impl<F, B, E> Future for Noted<F>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Sending<Held<B, UnderWay>>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        this.answer.poll(context).map(|answer| {
            let under_way = this.under_way.take();
            answer.map(|mut answer| {
                let activity = under_way.as_ref().map(UnderWay::activity);
                if let Some(activity) = &activity {
                    if *this.http2 && *this.connects && answer.status().is_success() {
                        activity.tunnelled();
                    }
                    if !*this.http2 && activity.is_closing() {
                        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                    }
                }
                let activity = activity.filter(|_| *this.http2).map(Arc::clone);
                answer.map(|body| Sending::new(Held::new(body, under_way), activity))
            })
        })
    }
}
