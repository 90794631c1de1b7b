//! The body of an answer, on its way to the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sluicegate_engine::{Outcome, Pass};

use crate::client::Client;
use crate::lane::{AnswerError, ServerBody};

/// What a client is sent.
pub(crate) enum AnswerBody {
    /// What the gateway itself has to say.
    Own(Option<Bytes>),
    /// What a server says.
    Server(Box<Relayed>),
}

/// A server's answer, with what is held until it has been sent.
pub(crate) struct Relayed {
    body: Option<ServerBody>,
    held: Held,
    client: Arc<Client>,
}

/// What a request holds until its answer has been sent.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Permits, and reserves to be settled.
    pub(crate) outcome: Option<Box<Outcome>>,
    /// Its place among the requests under way.
    pub(crate) turn: Option<Pass>,
}

impl AnswerBody {
    pub(crate) fn own(body: Bytes) -> Self {
        Self::Own(Some(body).filter(|body| !body.is_empty()))
    }

    pub(crate) fn server(body: ServerBody, held: Held, client: Arc<Client>) -> Self {
        Self::Server(Box::new(Relayed { body: Some(body), held, client }))
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

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        match self.get_mut() {
            Self::Own(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            Self::Server(relayed) => {
                let Some(body) = &mut relayed.body else { return Poll::Ready(None) };
                let frame = Pin::new(body).poll_frame(context);
                if let Poll::Ready(None | Some(Err(_))) = frame {
                    relayed.end();
                }
                frame
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Own(body) => body.is_none(),
            Self::Server(relayed) => relayed.body.as_ref().is_none_or(Body::is_end_stream),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Own(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            Self::Server(relayed) => relayed.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint),
        }
    }
}
