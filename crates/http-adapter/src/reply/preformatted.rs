//! Preformatted refusals for the most frequent case.
//!
//! A client over its limit retries often and receives the same response each time. If the rule has no reply
//! of its own and the response is written as raw bytes, no header map is needed: the header lines and the
//! problem document are assembled from the [prerendered rule](crate::prerendered::RenderedRule).

use http::StatusCode;

use super::problem::{self, TYPICAL_BYTES};
use super::{retry_after, rule_reply, status_of};
use crate::decision_view::DecisionView;
use crate::header_value::seconds;
use crate::headers::{HeaderStyle, write_lines};
use crate::prerendered::RenderedRules;
use crate::problem::MEDIA_TYPE;

/// Initial capacity for the header lines.
const TYPICAL_HEADER_BYTES: usize = 256;

/// A refusal as raw bytes, equal to the response of [`Renderer::refuse`](crate::Renderer::refuse).
#[derive(Debug)]
pub struct RawRefusal {
    status: StatusCode,
    /// Header lines, followed by the body.
    bytes: Vec<u8>,
    /// Offset of the body.
    body_start: usize,
}

impl RawRefusal {
    /// Formats a refusal; `None` if the rule has its own reply or the cause is not a limit.
    pub(crate) fn of(style: HeaderStyle, rules: &RenderedRules, view: &impl DecisionView) -> Option<Self> {
        if rule_reply(rules, view).is_some() {
            return None;
        }
        let status = status_of(view);
        let mut text = Vec::with_capacity(TYPICAL_HEADER_BYTES + TYPICAL_BYTES);
        text.extend_from_slice(b"content-type: ");
        text.extend_from_slice(MEDIA_TYPE.as_bytes());
        if let Some(wait) = retry_after(view) {
            text.extend_from_slice(b"\r\nretry-after: ");
            text.extend_from_slice(itoa::Buffer::new().format(seconds(wait).max(1)).as_bytes());
        }
        text.extend_from_slice(b"\r\ncache-control: no-store\r\n");
        write_lines(&mut text, style, rules, view);
        let body = text.len();
        problem::write_over_quota(&mut text, rules, view, status).then_some(Self {
            status,
            bytes: text,
            body_start: body,
        })
    }

    /// The status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers as HTTP/1 lines with CRLF.
    pub fn lines(&self) -> &[u8] {
        &self.bytes[..self.body_start]
    }

    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.bytes[self.body_start..]
    }
}
