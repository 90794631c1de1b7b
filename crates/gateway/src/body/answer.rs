//! The body of an answer, on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use sluicegate_engine::gate::Ending;
use sluicegate_engine::{Outcome, Pass};
use sluicegate_http::{Paced, Tally, ending_of};

use super::BodyFate;
use crate::client::Client;
use crate::exchange::{Journal, Tunnel};
use crate::lane::{AnswerError, ServerBody};

/// What a client is sent.
pub(crate) enum AnswerBody {
    /// What the gateway itself has to say.
    Own(Option<Bytes>),
    /// What a server says.
    Server(Box<Relayed>),
    /// What a server says, no faster than the rules let it.
    Paced(Box<Paced<Relayed>>),
    /// Nothing: behind the head another protocol begins.
    Tunnel(Box<Tunnel>),
}

/// A server's answer, with what is held until it has been sent.
pub(crate) struct Relayed {
    body: Option<ServerBody>,
    held: Held,
    client: Arc<Client>,
}

/// What a request holds until its answer has been sent.
#[derive(Default)]
pub(crate) struct Held {
    /// Permits, and reserves to be settled.
    pub(crate) outcome: Option<Box<Outcome>>,
    /// Whether its rules know how it went.
    is_noted: bool,
    /// What the request really cost, as far as it is known.
    tally: Option<Box<Tally>>,
    /// What becomes of the request's body, if it has one and that matters.
    fate: Option<Arc<BodyFate>>,
    /// What is noted about it.
    pub(crate) journal: Option<Box<Journal>>,
    /// Its place among the requests under way.
    pub(crate) turn: Option<Pass>,
}

impl Held {
    /// Keeps an outcome that must be kept.
    pub(crate) fn keep(&mut self, outcome: Box<Outcome>) {
        self.tally = Tally::of(&outcome).map(Box::new);
        self.outcome = Some(outcome);
    }

    /// Whether it matters what the head of the answer says.
    pub(crate) const fn reads_heads(&self) -> bool {
        self.tally.is_some()
    }

    /// The request's body is on its way. However that ends, what has passed of it may have its price.
    pub(crate) fn sends(&mut self, fate: Option<&Arc<BodyFate>>) {
        if self.tally.is_some() {
            self.fate = fate.cloned();
        }
    }

    /// The answer has begun, with this head.
    pub(crate) fn answered(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.note(ending_of(status));
        if let Some(tally) = &mut self.tally {
            tally.answered(headers);
        }
    }

    /// Notes how the request went.
    pub(crate) fn note(&mut self, ending: Ending) {
        if let Some(outcome) = &mut self.outcome {
            outcome.note(ending);
            self.is_noted = true;
        }
    }

    /// Notes how the request went, and that what goes on is none.
    pub(crate) fn leave_gates(&mut self, ending: Ending) {
        if let Some(outcome) = &mut self.outcome {
            outcome.leave_gates(ending);
            self.is_noted = true;
        }
    }

    /// A part of the answer has passed; perhaps the last.
    fn passed(&mut self, frame: &Frame<Bytes>, has_ended: bool) {
        let Some(data) = frame.data_ref() else { return };
        if let Some(tally) = &mut self.tally {
            tally.received(data);
        }
        if let Some(journal) = &mut self.journal {
            journal.passed(data.len());
            if has_ended {
                journal.ended();
            }
        }
    }

    fn ended(&mut self) {
        if let Some(journal) = &mut self.journal {
            journal.ended();
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_noted {
            // The client went away first.
            self.note(Ending::Unknown);
        }
        if let (Some(mut tally), Some(outcome)) = (self.tally.take(), self.outcome.take()) {
            tally.sent(self.fate.as_ref().map_or(0, |fate| fate.bytes()));
            tally.settle(*outcome);
        }
    }
}

impl AnswerBody {
    pub(crate) fn own(body: Bytes) -> Self {
        Self::Own(Some(body).filter(|body| !body.is_empty()))
    }

    pub(crate) fn server(body: ServerBody, mut held: Held, client: Arc<Client>) -> Self {
        if body.is_end_stream() {
            held.ended();
        }
        let meters = held.outcome.as_ref().map(|outcome| outcome.meters()).filter(|meters| !meters.is_empty());
        let relayed = Relayed { body: Some(body), held, client };
        match meters {
            Some(meters) => Self::Paced(Box::new(Paced::new(relayed, meters))),
            None => Self::Server(Box::new(relayed)),
        }
    }
}

impl Relayed {
    /// All has been sent, or will not be.
    fn end(&mut self) {
        self.held = Held::default();
        if let Some(body) = self.body.take() {
            self.client.keep_alarm(body.into_alarm());
        }
    }
}

impl Drop for Relayed {
    fn drop(&mut self) {
        self.end();
    }
}

impl Body for Relayed {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *body).poll_frame(context);
        match &frame {
            Poll::Ready(Some(Ok(frame))) => {
                let has_ended = body.is_end_stream();
                this.held.passed(frame, has_ended);
            }
            Poll::Ready(None) => {
                this.held.ended();
                this.end();
            }
            Poll::Ready(Some(Err(_))) => this.end(),
            Poll::Pending => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        match self.get_mut() {
            Self::Own(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Server(relayed) => Pin::new(&mut **relayed).poll_frame(context),
            Self::Paced(paced) => Pin::new(&mut **paced).poll_frame(context),
            Self::Tunnel(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_none(),
            Self::Server(relayed) => relayed.is_end_stream(),
            Self::Paced(paced) => paced.is_end_stream(),
            Self::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Server(relayed) => relayed.size_hint(),
            Self::Paced(paced) => paced.size_hint(),
            Self::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}
