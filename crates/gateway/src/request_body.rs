//! Request bodies on their way to an upstream.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_http1::ParseError;
use sluicegate_net::LazyTimer;
use thiserror::Error;

use crate::client_io::SharedBody;

/// Body of a request as received from the client.
pub(crate) enum IncomingBody {
    /// No body.
    Empty,
    /// Received over HTTP/1.
    Http1(SharedBody),
    /// Received over HTTP/2.
    Http2(Incoming),
}

/// Body to send to an upstream.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// No body; such a request can be retried.
    Empty,
    /// The client's body.
    Client(Box<ClientBody>),
}

/// A body with a timeout for each part.
#[derive(Debug)]
pub(crate) struct ClientBody {
    body: IncomingBody,
    timeout: Duration,
    /// Start of the wait for the next part. The timeout applies only while the body is polled.
    waiting_since: Option<Timestamp>,
    timer: LazyTimer,
    status: Arc<BodyStatus>,
}

/// Progress and errors of a request body, for the task that waits for the response.
#[derive(Debug, Default)]
pub(crate) struct BodyStatus {
    bytes: AtomicU64,
    is_waiting_for_client: AtomicBool,
    timed_out: AtomicBool,
    is_broken: AtomicBool,
}

impl BodyStatus {
    /// Bytes forwarded so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// True while the next part from the client is awaited.
    pub(crate) fn is_waiting_for_client(&self) -> bool {
        self.is_waiting_for_client.load(Ordering::Relaxed)
    }

    /// True if the client caused the failure, not the upstream.
    pub(crate) fn is_client_error(&self) -> bool {
        self.timed_out() || self.is_broken()
    }

    /// True if a part did not arrive in time.
    pub(crate) fn timed_out(&self) -> bool {
        self.timed_out.load(Ordering::Relaxed)
    }

    /// True if the client aborted the body or sent an invalid one.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

/// Error that ends a request body early.
#[derive(Debug, Error)]
pub(crate) enum RequestBodyError {
    #[error("the request body timed out")]
    Timeout,
    #[error("malformed request: {0}")]
    Http1(#[from] ParseError),
    #[error("request aborted: {0}")]
    Http2(#[from] hyper::Error),
}

impl RequestBody {
    /// Wraps a client's body; each part must arrive within `timeout`.
    pub(crate) fn new(body: IncomingBody, timeout: Duration, clock: &ClockHandle) -> Self {
        match &body {
            IncomingBody::Empty => return Self::Empty,
            IncomingBody::Http2(body) if body.is_end_stream() => return Self::Empty,
            IncomingBody::Http1(_) | IncomingBody::Http2(_) => {}
        }
        let timer = LazyTimer::new(clock.clone());
        Self::Client(Box::new(ClientBody { body, timeout, waiting_since: None, timer, status: Arc::default() }))
    }

    /// Status of the body, unless it is empty.
    pub(crate) fn status(&self) -> Option<Arc<BodyStatus>> {
        match self {
            Self::Empty => None,
            Self::Client(client) => Some(Arc::clone(&client.status)),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl IncomingBody {
    fn poll_part(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match self {
            Self::Empty => Poll::Ready(None),
            Self::Http1(body) => body.poll_part(context).map_err(RequestBodyError::from),
            Self::Http2(body) => Pin::new(body).poll_frame(context).map_err(RequestBodyError::from),
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Http1(body) => body.remaining() == Some(0),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Http1(body) => body.remaining().map_or(SizeHint::default(), SizeHint::with_exact),
            Self::Http2(body) => body.size_hint(),
        }
    }
}

impl std::fmt::Debug for IncomingBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upload").finish_non_exhaustive()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        let Self::Client(client) = self.get_mut() else { return Poll::Ready(None) };
        let client = &mut **client;
        let part = client.body.poll_part(context);
        client.status.is_waiting_for_client.store(part.is_pending(), Ordering::Relaxed);
        match part {
            Poll::Ready(Some(Ok(frame))) => {
                client.waiting_since = None;
                if let Some(data) = frame.data_ref() {
                    client.status.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                client.status.is_broken.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let since = *client.waiting_since.get_or_insert_with(|| client.timer.now());
                client.timer.poll_due(since + client.timeout, context).map(|()| {
                    client.status.timed_out.store(true, Ordering::Relaxed);
                    Some(Err(RequestBodyError::Timeout))
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Client(client) => client.body.has_ended(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Client(client) => client.body.size_hint(),
        }
    }
}
