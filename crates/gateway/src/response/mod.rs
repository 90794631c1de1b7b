//! A response on its way to the client, from an upstream or from the gateway itself.

mod body;
mod tunnel;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Response, StatusCode};
use sluicegate_http_adapter::headers::RateLimitFields;
use sluicegate_http1::ResponseHead;

pub(crate) use body::{ResponseBody, ResponseGuard};
pub(crate) use tunnel::Tunnel;

/// A response. It is large and passed through several functions, so it is boxed.
pub(crate) struct ProxyResponse {
    pub(crate) status: StatusCode,
    /// The headers, without hop-by-hop headers.
    pub(crate) head: ResponseHead,
    /// RateLimit fields of the rules, written in addition to the headers.
    pub(crate) rate_limit_fields: Option<Box<RateLimitFields>>,
    pub(crate) body: ResponseBody,
}

impl ProxyResponse {
    pub(crate) fn new(status: StatusCode, head: impl Into<ResponseHead>, body: ResponseBody) -> Box<Self> {
        Box::new(Self { status, head: head.into(), rate_limit_fields: None, body })
    }

    /// A response that the gateway generates itself.
    pub(crate) fn from_gateway(response: Response<Bytes>, is_head: bool) -> Box<Self> {
        let (mut parts, mut body) = response.into_parts();
        if is_head && !body.is_empty() {
            // Over HTTP/2, hyper would send the body, and the client would see a protocol error.
            parts.headers.entry(CONTENT_LENGTH).or_insert(HeaderValue::from(body.len()));
            body = Bytes::new();
        }
        Self::new(parts.status, parts.headers, ResponseBody::local(body))
    }

    /// Merges the RateLimit fields into the headers if they replace headers that are present.
    pub(crate) fn merge_rate_limit_fields(&mut self) {
        let is_present =
            |name: &_| self.head.map().contains_key(name) || self.head.raw().is_some_and(|lines| lines.contains(name));
        if let Some(fields) = self.rate_limit_fields.take_if(|fields| fields.would_replace(is_present)) {
            fields.write(self.head.map_mut());
        }
    }

    /// Converts to the form that hyper sends.
    pub(crate) fn into_response(mut self) -> Response<ResponseBody> {
        if let Some(fields) = self.rate_limit_fields {
            fields.write(self.head.map_mut());
        }
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        *response.headers_mut() = std::mem::take(self.head.map_mut());
        response
    }
}
