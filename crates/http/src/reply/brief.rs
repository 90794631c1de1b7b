//! A plain refusal, as short as it is frequent.
//!
//! Whoever is over its limit asks again and again, and is told the same each time. Where the rule has no reply of its own
//! and the answer is written out at once, no map of headers is needed on the way: the lines are put together of what
//! the rule has [ready](crate::faces::Face), with the document behind them.

use http::StatusCode;

use super::problem::{self, KIND, USUAL_LENGTH};
use super::{own_reply, retry_after, status_of};
use crate::faces::Faces;
use crate::headers::{HeaderStyle, seconds, write_lines};
use crate::told::Told;

/// Room for the lines of a usual refusal.
const USUAL_LINES: usize = 256;

/// An answer to a refused request, ready to be written: the same as
/// [`Renderer::refuse_waved`](crate::Renderer::refuse_waved) would give.
#[derive(Debug)]
pub struct Brief {
    status: StatusCode,
    /// Lines of headers, and the body behind them.
    text: Vec<u8>,
    /// Where the body begins.
    body: usize,
}

impl Brief {
    /// `None` if there is more to it.
    pub(crate) fn of(style: HeaderStyle, faces: &Faces, told: &impl Told) -> Option<Self> {
        if own_reply(faces, told).is_some() {
            return None;
        }
        let status = status_of(told);
        let mut text = Vec::with_capacity(USUAL_LINES + USUAL_LENGTH);
        text.extend_from_slice(b"content-type: ");
        text.extend_from_slice(KIND.as_bytes());
        if let Some(wait) = retry_after(told) {
            text.extend_from_slice(b"\r\nretry-after: ");
            text.extend_from_slice(itoa::Buffer::new().format(seconds(wait).max(1)).as_bytes());
        }
        text.extend_from_slice(b"\r\ncache-control: no-store\r\n");
        write_lines(&mut text, style, faces, told);
        let body = text.len();
        problem::write_over_quota(&mut text, faces, told, status).then_some(Self { status, text, body })
    }

    /// The status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers as lines of HTTP/1, each with its end.
    pub fn lines(&self) -> &[u8] {
        &self.text[..self.body]
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.text[self.body..]
    }
}
