//! An answer on its way to the client: what a server says, or the gateway itself.

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response, StatusCode};
use sluicegate_http::headers::Fields;
use sluicegate_http1::Head;

use crate::body::AnswerBody;

/// An answer. It is large, and goes through several hands: on the heap, it stays where it is.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// Its headers, without those for one hop only.
    pub(crate) head: Head,
    /// What else its head tells: what the rules leave to the client.
    pub(crate) fields: Option<Box<Fields>>,
    pub(crate) body: AnswerBody,
}

impl Answer {
    pub(crate) fn new(status: StatusCode, head: impl Into<Head>, body: AnswerBody) -> Box<Self> {
        Box::new(Self { status, head: head.into(), fields: None, body })
    }

    /// What the gateway itself answers.
    pub(crate) fn own(answer: Response<Bytes>, is_head: bool) -> Box<Self> {
        let (mut parts, mut body) = answer.into_parts();
        if is_head && !body.is_empty() {
            // Over HTTP/2 hyper would send it, and the client would take that for a broken stream.
            parts.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(body.len()));
            body = Bytes::new();
        }
        Self::new(parts.status, parts.headers, AnswerBody::own(body))
    }

    /// Settles what its head tells: fields that take the place of others are among the headers then.
    pub(crate) fn settle(&mut self) {
        let is_there = |name: &_| {
            self.head.map().contains_key(name) || self.head.lines().is_some_and(|lines| lines.contains(name))
        };
        if let Some(fields) = self.fields.take_if(|fields| fields.replace(is_there)) {
            fields.write(self.head.map_mut());
        }
    }

    /// The same as hyper sends it.
    pub(crate) fn into_response(mut self) -> Response<AnswerBody> {
        if let Some(fields) = self.fields {
            fields.write(self.head.map_mut());
        }
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = std::mem::take(self.head.map_mut());
        response
    }
}
