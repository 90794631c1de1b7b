//! The service for clients that cannot speak gRPC, as the reference has it over HTTP.
//!
//! `POST /json` takes and answers the same messages as JSON: 200 if the request is admitted, 429 if not, 400 if
//! it cannot be decided. `/healthcheck` answers 200 `OK`, and 500 while the server drains.

mod read;
mod write;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;

use super::Rls;
use super::decide::{Decided, decide};
use super::proto::{Code, RateLimitResponse};
use super::question::check;

#[cfg(test)]
pub(super) use write::json as text;

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Rls {
    /// Decides about a request in JSON.
    pub(crate) async fn json(&self, body: Bytes) -> Response<Full<Bytes>> {
        match self.decide_json(&body).await {
            Ok(response) => {
                let status = match response.overall_code() {
                    Code::Ok => StatusCode::OK,
                    Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
                    Code::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
                };
                reply(status, JSON, write::json(&response))
            }
            Err(wrong) => reply(StatusCode::BAD_REQUEST, TEXT, wrong + "\n"),
        }
    }

    async fn decide_json(&self, body: &[u8]) -> Result<RateLimitResponse, String> {
        let Self(rls) = self;
        if body.len() > rls.max_request {
            return Err(format!("the request has {} bytes; the most are {}", body.len(), rls.max_request));
        }
        let request = read::request(body).map_err(|error| format!("this is no RateLimitRequest: {error}"))?;
        let decided = check(&request, rls.max_checks).and_then(|()| decide(rls, request, None));
        let decided = match decided {
            Ok(Decided::Now(response)) => Ok(response),
            Ok(Decided::Later(later)) => later.answer().await,
            Err(error) => Err(error),
        };
        decided.map_err(|error| error.to_string())
    }

    /// Whether to come here, for those who ask over HTTP.
    pub(crate) fn healthcheck(&self) -> Response<Full<Bytes>> {
        match self.0.beside.is_draining() {
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
