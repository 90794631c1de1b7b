//! The body of a server's answer, and what happens to its connection afterwards.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use sluicegate_engine::Timestamp;
use thiserror::Error;

use super::Lane;
use super::link::Link;
use crate::alarm::LazyAlarm;
use crate::upstream::Attempt;

/// The body of an answer. It drives its connection, and gives it back when all has been read.
pub(crate) struct ServerBody {
    body: Incoming,
    /// The connection, if it carries nothing else.
    link: Option<Box<Link>>,
    lane: Arc<Lane>,
    /// Counted as under way until the answer has ended.
    attempt: Option<Attempt>,
    patience: Duration,
    /// Since when the next part is awaited.
    awaited: Option<Timestamp>,
    alarm: LazyAlarm,
}

/// Why an answer ends too early.
#[derive(Debug, Error)]
pub(crate) enum AnswerError {
    #[error("the server took too long to send the next part of its answer")]
    Slow,
    #[error("the server's answer broke off: {0}")]
    Server(#[from] hyper::Error),
}

impl ServerBody {
    pub(super) fn new(
        body: Incoming,
        link: Option<Box<Link>>,
        lane: Arc<Lane>,
        attempt: Attempt,
        alarm: LazyAlarm,
    ) -> Self {
        let patience = lane.patience_for_bodies();
        let mut body = Self { body, link, lane, attempt: Some(attempt), patience, awaited: None, alarm };
        if body.body.is_end_stream() {
            body.end();
        }
        body
    }

    /// Of an answer whose connection goes on elsewhere.
    pub(crate) fn detached(body: Incoming, lane: Arc<Lane>, attempt: Attempt, alarm: LazyAlarm) -> Self {
        Self::new(body, None, lane, attempt, alarm)
    }

    /// The alarm, for whoever goes on with this connection.
    pub(crate) fn into_alarm(self) -> LazyAlarm {
        self.alarm
    }

    /// All has been read.
    fn end(&mut self) {
        if let (Some(link), Some(attempt)) = (self.link.take(), &self.attempt) {
            self.lane.take_back(attempt.server().position(), link);
        }
        self.attempt = None;
    }

    fn poll_body(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(link) = &mut self.link else { return Pin::new(&mut self.body).poll_frame(context) };
        // Data comes only while the connection is polled, and is looked for right after that: nobody need be woken.
        let mut unwoken = Context::from_waker(Waker::noop());
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(&mut unwoken) {
            return Poll::Ready(frame);
        }
        link.poll(context);
        Pin::new(&mut self.body).poll_frame(&mut unwoken)
    }
}

impl Body for ServerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let this = self.get_mut();
        match this.poll_body(context) {
            Poll::Ready(Some(Ok(frame))) => {
                this.awaited = None;
                if this.body.is_end_stream() {
                    this.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                if let Some(attempt) = this.attempt.take() {
                    attempt.failed();
                }
                this.link = None;
                Poll::Ready(Some(Err(error.into())))
            }
            Poll::Ready(None) => {
                this.end();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let since = *this.awaited.get_or_insert_with(|| this.alarm.now());
                this.alarm.poll_due(since + this.patience, context).map(|()| {
                    if let Some(attempt) = this.attempt.take() {
                        attempt.failed();
                    }
                    this.link = None;
                    Some(Err(AnswerError::Slow))
                })
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
