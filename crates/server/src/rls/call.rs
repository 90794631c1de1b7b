//! Calls as they come over a connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::Service;
use sluicegate_engine::clock::Sleep;
use sluicegate_engine::time::Timestamp;
use tonic::Status;

use super::decide::{Decided, decide};
use super::grpc::{AnswerBody, Receiving, answer, plain, refuse, timeout};
use super::{Rls, Shared, question};

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH: &str = "/grpc.health.v1.Health/";
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// A call being answered. What is decided at once needs no memory of its own.
pub(crate) enum Answering {
    /// Its message is still coming.
    Receiving {
        /// Who decides.
        rls: Arc<Shared>,
        /// When the client stops waiting.
        until: Option<Timestamp>,
        /// What has come.
        message: Receiving<Incoming>,
        /// Rings when nothing more has come for too long; set once something is waited for.
        late: Option<Box<Late>>,
    },
    /// Something is waited for.
    Waiting(Pin<Box<dyn Future<Output = Response<AnswerBody>> + Send>>),
    /// The answer, until it is taken.
    Answered(Option<Response<AnswerBody>>),
}

/// When a message that pauses is given up.
pub(crate) struct Late {
    /// How many bytes had come when it was set.
    received: usize,
    alarm: Sleep,
}

impl Service<Request<Incoming>> for Rls {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        match self.accept(request) {
            Ok(answering) => answering,
            Err(response) => Answering::Answered(Some(*response)),
        }
    }
}

impl Rls {
    fn accept(&self, request: Request<Incoming>) -> Result<Answering, Box<Response<AnswerBody>>> {
        let Self(rls) = self;
        if !is_grpc(&request) {
            let text = "this is a gRPC service: POST with application/grpc\n";
            return Err(Box::new(plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
        }
        let path = request.uri().path();
        if !path.starts_with(HEALTH) && !rls.may_ask(request.headers()) {
            let status = Status::unauthenticated("show the secret: authorization: Bearer <secret>");
            return Err(Box::new(refuse(status)));
        }
        if path != SHOULD_RATE_LIMIT {
            return Ok(Answering::Waiting(Box::pin(rls.beside.answer(request))));
        }
        if request.headers().get(GRPC_ENCODING).is_some_and(|encoding| encoding != "identity") {
            let status = Status::unimplemented("compressed messages are not understood: send them as they are");
            return Err(Box::new(refuse(status)));
        }
        let until = timeout(request.headers()).map(|timeout| rls.sluice.clock().now() + timeout);
        let message = Receiving::new(request.into_body(), rls.max_request);
        Ok(Answering::Receiving { rls: Arc::clone(rls), until, message, late: None })
    }
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let is_kind = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    is_kind && request.method() == Method::POST
}

impl Shared {
    /// Whether the client has shown the secret, if there is one.
    fn may_ask(&self, headers: &HeaderMap) -> bool {
        let Some(secret) = &self.secret else { return true };
        let shown = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        shown.and_then(|shown| shown.split_at_checked(BEARER.len())).is_some_and(|(scheme, shown)| {
            // Both are looked at, whatever the first is.
            scheme.eq_ignore_ascii_case(BEARER) & secret.is(shown)
        })
    }

    fn answer(rls: &Arc<Self>, until: Option<Timestamp>, message: Result<Bytes, Status>) -> Answering {
        let decided = message.and_then(|message| {
            let request = question::read(message, rls.max_checks)?;
            Ok(decide(rls, request, until)?)
        });
        match decided {
            Ok(Decided::Now(response)) => Answering::Answered(Some(answer(&response))),
            Ok(Decided::Later(later)) => Answering::Waiting(Box::pin(async move {
                match later.answer().await {
                    Ok(response) => answer(&response),
                    Err(error) => refuse(error.into()),
                }
            })),
            Err(status) => Answering::Answered(Some(refuse(status))),
        }
    }
}

const BEARER: &[u8] = b"Bearer ";

impl Future for Answering {
    type Output = Result<Response<AnswerBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match &mut *self {
                Self::Receiving { rls, until, message, late } => match message.poll(context) {
                    Poll::Ready(message) => Shared::answer(rls, *until, message),
                    Poll::Pending => {
                        let received = message.received();
                        let late = match late {
                            Some(late) if late.received == received => late,
                            _ => late.insert(Box::new(Late { received, alarm: rls.sluice.clock().sleep(rls.pause) })),
                        };
                        ready!(Pin::new(&mut late.alarm).poll(context));
                        let status = Status::deadline_exceeded("the rest of the message did not come in time");
                        Self::Answered(Some(refuse(status)))
                    }
                },
                Self::Waiting(future) => return future.as_mut().poll(context).map(Ok),
                // Polled again after it was ready: there is nothing more to come.
                Self::Answered(response) => return response.take().map_or(Poll::Pending, |it| Poll::Ready(Ok(it))),
            };
            *self = next;
        }
    }
}
