//! Upstream response bodies, and the return of their connections to the pool.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sluicegate_engine::Timestamp;
use sluicegate_http1::ParseError;
use sluicegate_net::LazyTimer;
use thiserror::Error;

use super::UpstreamPool;
use super::h1::H1Connection;
use crate::upstream::Attempt;

/// Body of an upstream response. It drives the connection and returns it to the pool at the end.
pub(crate) struct UpstreamBody {
    source: BodySource,
    pool: Arc<UpstreamPool>,
    /// Counts as in flight until the response ends.
    attempt: Option<Attempt>,
    timeout: Duration,
    /// Start of the wait for the next part.
    waiting_since: Option<Timestamp>,
    timer: LazyTimer,
}

/// Source of a response body.
pub(super) enum BodySource {
    /// An exclusive HTTP/1 connection.
    H1(Box<H1Connection>),
    /// A stream of an HTTP/2 connection.
    H2(Incoming),
    /// None: the body has ended.
    Ended,
}

/// Error that ends a response early.
#[derive(Debug, Error)]
pub(crate) enum ResponseBodyError {
    #[error("upstream response body timed out")]
    Timeout,
    #[error("the client did not send the complete request")]
    RequestAborted,
    #[error("malformed upstream response: {0}")]
    Http1(#[from] ParseError),
    #[error("upstream response aborted: {0}")]
    Http2(#[from] hyper::Error),
}

impl BodySource {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>> {
        match self {
            Self::H1(connection) => connection.poll_body(context),
            Self::H2(body) => Pin::new(body).poll_frame(context).map_err(ResponseBodyError::from),
            Self::Ended => Poll::Ready(None),
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::H1(connection) => connection.remaining() == Some(0),
            Self::H2(body) => body.is_end_stream(),
            Self::Ended => true,
        }
    }
}

impl UpstreamBody {
    pub(super) fn new(source: BodySource, pool: Arc<UpstreamPool>, attempt: Attempt, timer: LazyTimer) -> Self {
        let timeout = pool.body_timeout();
        let mut body = Self { source, pool, attempt: Some(attempt), timeout, waiting_since: None, timer };
        if body.source.has_ended() {
            body.finish();
        }
        body
    }

    /// Response that switches protocols: it has no body, and its connection must not return to the pool.
    pub(super) fn switched(source: BodySource, pool: Arc<UpstreamPool>, attempt: Attempt, timer: LazyTimer) -> Self {
        Self { source, pool, attempt: Some(attempt), timeout: Duration::ZERO, waiting_since: None, timer }
    }

    /// Takes the connection of a response that switches protocols. `None` over HTTP/2, which has no such switch.
    pub(crate) fn into_connection(mut self) -> Option<(Box<H1Connection>, Attempt, LazyTimer)> {
        let source = std::mem::replace(&mut self.source, BodySource::Ended);
        let (BodySource::H1(connection), Some(attempt)) = (source, self.attempt.take()) else { return None };
        Some((connection, attempt, self.into_timer()))
    }

    /// Returns the timer for reuse.
    pub(crate) fn into_timer(self) -> LazyTimer {
        self.timer
    }

    /// The whole body was read.
    fn finish(&mut self) {
        let source = std::mem::replace(&mut self.source, BodySource::Ended);
        if let (BodySource::H1(connection), Some(attempt)) = (source, &self.attempt) {
            self.pool.put_back(attempt.server().position(), connection);
        }
        self.attempt = None;
    }

    /// Aborts the body before its end.
    fn abort(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            attempt.failed();
        }
        self.source = BodySource::Ended;
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = ResponseBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>> {
        let this = self.get_mut();
        match this.source.poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.waiting_since = None;
                if this.source.has_ended() {
                    this.finish();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(ResponseBodyError::RequestAborted))) => {
                // Not caused by the server.
                this.attempt = None;
                this.source = BodySource::Ended;
                Poll::Ready(Some(Err(ResponseBodyError::RequestAborted)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.abort();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let since = *this.waiting_since.get_or_insert_with(|| this.timer.now());
                this.timer.poll_due(since + this.timeout, context).map(|()| {
                    this.abort();
                    Some(Err(ResponseBodyError::Timeout))
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.source.has_ended()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            BodySource::H1(connection) => connection.remaining().map_or(SizeHint::default(), SizeHint::with_exact),
            BodySource::H2(body) => body.size_hint(),
            BodySource::Ended => SizeHint::with_exact(0),
        }
    }
}
