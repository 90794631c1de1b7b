//! The body of a server's answer, and what happens to its connection afterwards.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sluicegate_engine::Timestamp;
use sluicegate_http1::Malformed;
use thiserror::Error;

use super::Lane;
use super::link::Link;
use crate::alarm::LazyAlarm;
use crate::upstream::Attempt;

/// The body of an answer. It drives its connection, and gives it back when all has been read.
pub(crate) struct ServerBody {
    from: From,
    lane: Arc<Lane>,
    /// Counted as under way until the answer has ended.
    attempt: Option<Attempt>,
    patience: Duration,
    /// Since when the next part is awaited.
    awaited: Option<Timestamp>,
    alarm: LazyAlarm,
}

/// Where a body comes from.
pub(super) enum From {
    /// A connection that carries nothing else.
    Link(Box<Link>),
    /// One stream of many.
    Http2(Incoming),
    /// Nowhere: it has ended.
    Nowhere,
}

/// Why an answer ends too early.
#[derive(Debug, Error)]
pub(crate) enum AnswerError {
    #[error("the server took too long to send the next part of its answer")]
    Slow,
    #[error("the client did not send its request to the end")]
    Request,
    #[error("the server's answer is malformed: {0}")]
    Http1(#[from] Malformed),
    #[error("the server's answer broke off: {0}")]
    Http2(#[from] hyper::Error),
}

impl From {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        match self {
            Self::Link(link) => link.poll_body(context),
            Self::Http2(body) => Pin::new(body).poll_frame(context).map_err(AnswerError::from),
            Self::Nowhere => Poll::Ready(None),
        }
    }

    fn has_ended(&self) -> bool {
        match self {
            Self::Link(link) => link.remaining() == Some(0),
            Self::Http2(body) => body.is_end_stream(),
            Self::Nowhere => true,
        }
    }
}

impl ServerBody {
    pub(super) fn new(from: From, lane: Arc<Lane>, attempt: Attempt, alarm: LazyAlarm) -> Self {
        let patience = lane.patience_for_bodies();
        let mut body = Self { from, lane, attempt: Some(attempt), patience, awaited: None, alarm };
        if body.from.has_ended() {
            body.end();
        }
        body
    }

    /// Of an answer over a connection of its own.
    pub(crate) fn of_link(link: Box<Link>, lane: Arc<Lane>, attempt: Attempt, alarm: LazyAlarm) -> Self {
        Self::new(From::Link(link), lane, attempt, alarm)
    }

    /// The alarm, for whoever goes on with this connection.
    pub(crate) fn into_alarm(self) -> LazyAlarm {
        self.alarm
    }

    /// All has been read.
    fn end(&mut self) {
        let from = std::mem::replace(&mut self.from, From::Nowhere);
        if let (From::Link(link), Some(attempt)) = (from, &self.attempt) {
            self.lane.take_back(attempt.server().position(), link);
        }
        self.attempt = None;
    }

    /// It ends before its end.
    fn break_off(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            attempt.failed();
        }
        self.from = From::Nowhere;
    }
}

impl Body for ServerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let this = self.get_mut();
        match this.from.poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.awaited = None;
                if this.from.has_ended() {
                    this.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(AnswerError::Request))) => {
                // Not the server's fault.
                this.attempt = None;
                this.from = From::Nowhere;
                Poll::Ready(Some(Err(AnswerError::Request)))
            }
            Poll::Ready(Some(Err(error))) => {
                this.break_off();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.end();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let since = *this.awaited.get_or_insert_with(|| this.alarm.now());
                this.alarm.poll_due(since + this.patience, context).map(|()| {
                    this.break_off();
                    Some(Err(AnswerError::Slow))
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.from.has_ended()
    }

    fn size_hint(&self) -> SizeHint {
        match &self.from {
            From::Link(link) => link.remaining().map_or(SizeHint::default(), SizeHint::with_exact),
            From::Http2(body) => body.size_hint(),
            From::Nowhere => SizeHint::with_exact(0),
        }
    }
}
