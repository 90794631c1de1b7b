//! gRPC service: handles the calls of a connection.

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

use super::decide::{DecideResult, decide};
use super::grpc::{GrpcBody, MessageReader, error_response, grpc_timeout, message_response, text_response};
use super::{Rls, RlsState, decode};

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEALTH: &str = "/grpc.health.v1.Health/";
const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// Future of a call. Needs no allocation if the decision is immediate.
pub(crate) enum CallFuture {
    /// The message is being received.
    Receiving {
        /// The service state.
        rls: Arc<RlsState>,
        /// Deadline of the client.
        deadline: Option<Timestamp>,
        /// The message so far.
        message: MessageReader<Incoming>,
        /// Read timeout; set once the call has to wait.
        read_timeout: Option<Box<ReadTimeout>>,
    },
    /// The decision is pending.
    Waiting(Pin<Box<dyn Future<Output = Response<GrpcBody>> + Send>>),
    /// The response, until it is taken.
    Ready(Option<Response<GrpcBody>>),
}

/// Read timeout of a message.
pub(crate) struct ReadTimeout {
    /// Number of bytes received at the time it was set.
    received: usize,
    timer: Sleep,
}

impl Service<Request<Incoming>> for Rls {
    type Response = Response<GrpcBody>;
    type Error = Infallible;
    type Future = CallFuture;

    fn call(&self, request: Request<Incoming>) -> CallFuture {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
        match self.accept(request) {
            Ok(future) => future,
            Err(response) => CallFuture::Ready(Some(*response)),
        }
    }
}

impl Rls {
    fn accept(&self, request: Request<Incoming>) -> Result<CallFuture, Box<Response<GrpcBody>>> {
        let Self(rls) = self;
        if !is_grpc(&request) {
            let text = "this is a gRPC service: use POST with application/grpc\n";
            return Err(Box::new(text_response(StatusCode::UNSUPPORTED_MEDIA_TYPE, text)));
        }
        let path = request.uri().path();
        if !path.starts_with(HEALTH) && !rls.is_authorized(request.headers()) {
            let status = Status::unauthenticated("missing or wrong secret: send authorization: Bearer <secret>");
            return Err(Box::new(error_response(status)));
        }
        if path != SHOULD_RATE_LIMIT {
            return Ok(CallFuture::Waiting(Box::pin(rls.health.call(request))));
        }
        if request.headers().get(GRPC_ENCODING).is_some_and(|encoding| encoding != "identity") {
            let status = Status::unimplemented("compressed messages are not supported: send them uncompressed");
            return Err(Box::new(error_response(status)));
        }
        let deadline = grpc_timeout(request.headers()).map(|timeout| rls.sluice.clock().now() + timeout);
        let message = MessageReader::new(request.into_body(), rls.max_request_size);
        Ok(CallFuture::Receiving { rls: Arc::clone(rls), deadline, message, read_timeout: None })
    }
}

fn is_grpc(request: &Request<Incoming>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    let is_kind = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    is_kind && request.method() == Method::POST
}

impl RlsState {
    /// True if the client sent the secret, or none is required.
    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let Some(secret) = &self.secret else { return true };
        let credentials = headers.get(header::AUTHORIZATION).map(|value| value.as_bytes());
        credentials.and_then(|value| value.split_at_checked(BEARER.len())).is_some_and(|(scheme, token)| {
            // Both operands are always evaluated.
            scheme.eq_ignore_ascii_case(BEARER) & secret.matches(token)
        })
    }

    fn decide_message(rls: &Arc<Self>, deadline: Option<Timestamp>, message: Result<Bytes, Status>) -> CallFuture {
        let decided = message.and_then(|message| {
            let request = decode::decode(message, rls.max_checks)?;
            Ok(decide(rls, request, deadline)?)
        });
        match decided {
            Ok(DecideResult::Ready(response)) => CallFuture::Ready(Some(message_response(&response))),
            Ok(DecideResult::Pending(pending)) => CallFuture::Waiting(Box::pin(async move {
                match pending.wait().await {
                    Ok(response) => message_response(&response),
                    Err(error) => error_response(error.into()),
                }
            })),
            Err(status) => CallFuture::Ready(Some(error_response(status))),
        }
    }
}

const BEARER: &[u8] = b"Bearer ";

impl Future for CallFuture {
    type Output = Result<Response<GrpcBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = match &mut *self {
                Self::Receiving { rls, deadline, message, read_timeout } => match message.poll(context) {
                    Poll::Ready(message) => RlsState::decide_message(rls, *deadline, message),
                    Poll::Pending => {
                        let received = message.received();
                        let timeout = match read_timeout {
                            Some(timeout) if timeout.received == received => timeout,
                            _ => read_timeout.insert(Box::new(ReadTimeout {
                                received,
                                timer: rls.sluice.clock().sleep(rls.read_timeout),
                            })),
                        };
                        ready!(Pin::new(&mut timeout.timer).poll(context));
                        let status = Status::deadline_exceeded("timed out before the end of the message");
                        Self::Ready(Some(error_response(status)))
                    }
                },
                Self::Waiting(future) => return future.as_mut().poll(context).map(Ok),
                // Polled after completion.
                Self::Ready(response) => return response.take().map_or(Poll::Pending, |it| Poll::Ready(Ok(it))),
            };
            *self = next;
        }
    }
}
