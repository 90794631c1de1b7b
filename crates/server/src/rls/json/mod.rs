//! JSON variant of the rate limit service over HTTP, as in the reference implementation.
//!
//! `POST /json` takes and returns the same messages as JSON: 200 if the request is admitted, 429 if not, 400 if
//! it is invalid. `/healthcheck` returns 200 `OK`, and 500 while the server drains.
//!
//! The protobuf JSON mapping is own code: what `pbjson` generates does not bound the length of lists while it decodes,
//! so that a small body could take a hundred times its size in memory, and its well-known types bring another date
//! crate into the build.

mod decode;
mod encode;
mod schema;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::Rls;
use super::decide::{DecideResult, decide};
use super::decode::validate;
use super::proto::{Code, RateLimitResponse};

pub(crate) use schema::add_schemas;

#[cfg(test)]
pub(super) use encode::response_json as text;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Rls {
    /// Decides a request in JSON.
    pub(crate) async fn handle_json(&self, body: Bytes) -> Response<Full<Bytes>> {
        match self.decide_json(&body).await {
            Ok(response) => {
                let status = match response.overall_code() {
                    Code::Ok => StatusCode::OK,
                    Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
                    Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
                };
                reply(status, JSON, encode::response_json(&response))
            }
            Err(error) => reply(StatusCode::BAD_REQUEST, TEXT, error + "\n"),
        }
    }

    async fn decide_json(&self, body: &[u8]) -> Result<RateLimitResponse, String> {
        let Self(rls) = self;
        if body.len() > rls.max_request_size {
            return Err(format!("the request has {} bytes; the maximum is {}", body.len(), rls.max_request_size));
        }
        let request = decode::decode_request(body).map_err(|error| format!("invalid RateLimitRequest: {error}"))?;
        let decided = validate(&request, rls.max_checks).and_then(|()| decide(rls, request, None));
        let decided = match decided {
            Ok(DecideResult::Ready(response)) => Ok(response),
            Ok(DecideResult::Pending(pending)) => pending.wait().await,
            Err(error) => Err(error),
        };
        decided.map_err(|error| error.to_string())
    }

    /// Health check over HTTP.
    pub(crate) fn healthcheck(&self) -> Response<Full<Bytes>> {
        match self.0.health.is_draining() {
            false => reply(StatusCode::OK, TEXT, "OK"),
            true => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "draining\n"),
        }
    }
}

fn reply(status: StatusCode, kind: HeaderValue, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
