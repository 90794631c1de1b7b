//! The body of a request, on its way to an upstream.

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
use sluicegate_http1::Malformed;
use thiserror::Error;

use crate::alarm::LazyAlarm;
use crate::inbound::SharedBody;

/// What comes behind a request's head, as it comes.
pub(crate) enum Upload {
    /// Nothing.
    Empty,
    /// Over HTTP/1.
    Http1(SharedBody),
    /// Over HTTP/2.
    Http2(Incoming),
}

/// What the client sends, if anything.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// Nothing: such a request can be sent again.
    Empty,
    /// What the client sends.
    Client(Box<ClientBody>),
}

/// A body whose parts must come in time.
#[derive(Debug)]
pub(crate) struct ClientBody {
    body: Upload,
    patience: Duration,
    /// Since when the next part is awaited. A body that nobody asks for is not late.
    awaited: Option<Timestamp>,
    alarm: LazyAlarm,
    fate: Arc<BodyFate>,
}

/// What became of a body, for whoever waits for the answer.
#[derive(Debug, Default)]
pub(crate) struct BodyFate {
    bytes: AtomicU64,
    is_awaited: AtomicBool,
    is_slow: AtomicBool,
    is_broken: AtomicBool,
}

impl BodyFate {
    /// How much of it has gone.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the client is waited for, to send the next part of it.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed)
    }

    /// Whether it was the client that failed, and not who it was sent to.
    pub(crate) fn is_clients_fault(&self) -> bool {
        self.is_slow() || self.is_broken()
    }

    /// Whether a part of it took too long to come.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    /// Whether the client broke it off, or sent what is no body.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }
}

/// Why a body ends too early.
#[derive(Debug, Error)]
pub(crate) enum RequestBodyError {
    #[error("the client took too long to send the next part of its request")]
    Slow,
    #[error("the client's request is malformed: {0}")]
    Http1(#[from] Malformed),
    #[error("the client's request broke off: {0}")]
    Http2(#[from] hyper::Error),
}

impl RequestBody {
    /// What a client sends; each part must come within `patience`.
    pub(crate) fn new(body: Upload, patience: Duration, clock: &ClockHandle) -> Self {
        match &body {
            Upload::Empty => return Self::Empty,
            Upload::Http2(body) if body.is_end_stream() => return Self::Empty,
            Upload::Http1(_) | Upload::Http2(_) => {}
        }
        let alarm = LazyAlarm::new(clock.clone());
        Self::Client(Box::new(ClientBody { body, patience, awaited: None, alarm, fate: Arc::default() }))
    }

    /// What becomes of it, unless it is empty.
    pub(crate) fn fate(&self) -> Option<Arc<BodyFate>> {
        match self {
            Self::Empty => None,
            Self::Client(client) => Some(Arc::clone(&client.fate)),
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl Upload {
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

impl std::fmt::Debug for Upload {
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
        client.fate.is_awaited.store(part.is_pending(), Ordering::Relaxed);
        match part {
            Poll::Ready(Some(Ok(frame))) => {
                client.awaited = None;
                if let Some(data) = frame.data_ref() {
                    client.fate.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                client.fate.is_broken.store(true, Ordering::Relaxed);
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let since = *client.awaited.get_or_insert_with(|| client.alarm.now());
                client.alarm.poll_due(since + client.patience, context).map(|()| {
                    client.fate.is_slow.store(true, Ordering::Relaxed);
                    Some(Err(RequestBodyError::Slow))
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
