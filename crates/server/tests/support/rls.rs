//! Minimal client of Envoy's rate limit service.

use std::collections::HashMap;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;

use super::endpoint::TestEndpoint;
use super::with_timeout;

#[derive(Clone, PartialEq, Message)]
pub struct DescriptorEntry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<DescriptorEntry>,
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

impl Descriptor {
    pub fn of(entries: &[(&str, &str)]) -> Self {
        let entry =
            |(key, value): &(&str, &str)| DescriptorEntry { key: (*key).to_owned(), value: (*value).to_owned() };
        Self { entries: entries.iter().map(entry).collect(), ..Self::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct RateLimitRequest {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct DescriptorStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    pub service: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    pub status: i32,
}

pub const SERVING: i32 = 1;
pub const NOT_SERVING: i32 = 2;
pub const UNAUTHENTICATED: i32 = 16;

/// Call error: the gRPC status, or `None` for a connection error, and a message.
#[derive(Debug, PartialEq, Eq)]
pub struct RlsError(pub Option<i32>, pub String);

pub struct TestRlsClient {
    send: SendRequest<Full<Bytes>>,
    pub secret: Option<String>,
}

impl TestRlsClient {
    pub async fn connect(endpoint: &TestEndpoint) -> Result<Self, RlsError> {
        let io = endpoint.connect(b"h2").await.map_err(|error| RlsError(None, error.to_string()))?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io));
        let (send, connection) = with_timeout("the handshake", handshake).await.map_err(connection_error)?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { send, secret: None })
    }

    /// Checks one descriptor: allowed and remaining.
    pub async fn check(&mut self, domain: &str, entries: &[(&str, &str)]) -> Result<(bool, u32), RlsError> {
        let response = self.check_all(domain, &[entries]).await?;
        assert_eq!(response.statuses.len(), 1);
        Ok((response.overall_code == 1, response.statuses[0].limit_remaining))
    }

    pub async fn check_all(
        &mut self,
        domain: &str,
        descriptors: &[&[(&str, &str)]],
    ) -> Result<RateLimitResponse, RlsError> {
        let descriptors = descriptors.iter().map(|entries| Descriptor::of(entries)).collect();
        self.should_rate_limit(RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 }).await
    }

    /// Adds hits to one descriptor: negative hits are refunded, zero only reads. Returns allowed and remaining.
    pub async fn hit(&mut self, domain: &str, entries: &[(&str, &str)], hits: i64) -> Result<(bool, u32), RlsError> {
        let (hits_addend, is_negative_hits) = (Some(hits.unsigned_abs()), hits < 0);
        let descriptors = vec![Descriptor { hits_addend, is_negative_hits, ..Descriptor::of(entries) }];
        let response =
            self.should_rate_limit(RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 }).await?;
        Ok((response.overall_code == 1, response.statuses[0].limit_remaining))
    }

    async fn should_rate_limit(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, RlsError> {
        self.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &request).await
    }

    pub async fn health(&mut self, service: &str) -> Result<i32, RlsError> {
        let request = HealthCheckRequest { service: service.to_owned() };
        self.call::<HealthCheckResponse>("/grpc.health.v1.Health/Check", &request).await.map(|response| response.status)
    }

    /// Watches the health of a service.
    pub async fn watch(&mut self, service: &str) -> Result<HealthWatch, RlsError> {
        let request = HealthCheckRequest { service: service.to_owned() };
        let body = self.start_call("/grpc.health.v1.Health/Watch", &request).await?.into_body();
        Ok(HealthWatch(body))
    }

    async fn call<T: Message + Default>(&mut self, path: &str, message: &impl Message) -> Result<T, RlsError> {
        let (head, body) = self.start_call(path, message).await?.into_parts();
        let body = with_timeout("the response body", body.collect()).await.map_err(connection_error)?;
        let trailers: HashMap<_, _> = body.trailers().unwrap_or(&head.headers).iter().collect();
        let trailer = |name: &str| {
            trailers.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value.to_str().unwrap())
        };
        match trailer("grpc-status").expect("the response has a gRPC status").parse() {
            Ok(0) => Ok(T::decode(&body.to_bytes()[5..]).unwrap()),
            status => Err(RlsError(status.ok(), trailer("grpc-message").unwrap_or_default().to_owned())),
        }
    }

    async fn start_call(&mut self, path: &str, message: &impl Message) -> Result<Response<Incoming>, RlsError> {
        let mut request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(secret) = &self.secret {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
        message.encode(&mut framed).unwrap();
        let request = request.body(Full::from(framed)).unwrap();
        with_timeout("the connection is ready", self.send.ready()).await.map_err(connection_error)?;
        let response = with_timeout("a response", self.send.send_request(request)).await.map_err(connection_error)?;
        assert_eq!(response.status(), StatusCode::OK);
        Ok(response)
    }
}

/// Stream of health updates.
pub struct HealthWatch(Incoming);

impl HealthWatch {
    /// Next health status; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<i32>, RlsError> {
        loop {
            let Some(frame) = with_timeout("a health update", self.0.frame()).await else { return Ok(None) };
            if let Ok(data) = frame.map_err(connection_error)?.into_data() {
                return Ok(Some(HealthCheckResponse::decode(&data[5..]).unwrap().status));
            }
        }
    }
}

fn connection_error(error: hyper::Error) -> RlsError {
    RlsError(None, error.to_string())
}
