//! A client of Envoy's rate limit service, as far as tests need it.

use std::collections::HashMap;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;

use super::place::Place;
use super::soon;

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub key: String,
    #[prost(string, tag = "2")]
    pub value: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<Entry>,
    #[prost(message, optional, tag = "3")]
    pub hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    pub is_negative_hits: bool,
}

impl Descriptor {
    pub fn of(entries: &[(&str, &str)]) -> Self {
        let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
        Self { entries: entries.iter().map(entry).collect(), ..Self::default() }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct Asked {
    #[prost(string, tag = "1")]
    pub domain: String,
    #[prost(message, repeated, tag = "2")]
    pub descriptors: Vec<Descriptor>,
    #[prost(uint32, tag = "3")]
    pub hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Status {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Told {
    #[prost(int32, tag = "1")]
    pub overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub struct HealthAsked {
    #[prost(string, tag = "1")]
    pub service: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct HealthTold {
    #[prost(int32, tag = "1")]
    pub status: i32,
}

pub const SERVING: i32 = 1;
pub const NOT_SERVING: i32 = 2;
pub const UNAUTHENTICATED: i32 = 16;

/// What went wrong: the status of gRPC, or none where the connection is at fault.
#[derive(Debug, PartialEq, Eq)]
pub struct Failed(pub Option<i32>, pub String);

pub struct Rls {
    send: SendRequest<Full<Bytes>>,
    pub secret: Option<String>,
}

impl Rls {
    pub async fn to(place: &Place) -> Result<Self, Failed> {
        let io = place.connect(b"h2").await.map_err(|error| Failed(None, error.to_string()))?;
        let shaking = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(io));
        let (send, connection) = soon("the handshake", shaking).await.map_err(lost)?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { send, secret: None })
    }

    /// Asks about one descriptor: whether it may go on, and what remains.
    pub async fn ask(&mut self, domain: &str, entries: &[(&str, &str)]) -> Result<(bool, u32), Failed> {
        let told = self.ask_all(domain, &[entries]).await?;
        assert_eq!(told.statuses.len(), 1);
        Ok((told.overall_code == 1, told.statuses[0].limit_remaining))
    }

    pub async fn ask_all(&mut self, domain: &str, descriptors: &[&[(&str, &str)]]) -> Result<Told, Failed> {
        let descriptors = descriptors.iter().map(|entries| Descriptor::of(entries)).collect();
        self.ask_as(Asked { domain: domain.to_owned(), descriptors, hits_addend: 0 }).await
    }

    /// Spends these hits by one descriptor; negative ones are given back, none look. Whether it may go on, and what
    /// remains.
    pub async fn hit(&mut self, domain: &str, entries: &[(&str, &str)], hits: i64) -> Result<(bool, u32), Failed> {
        let (hits_addend, is_negative_hits) = (Some(hits.unsigned_abs()), hits < 0);
        let descriptors = vec![Descriptor { hits_addend, is_negative_hits, ..Descriptor::of(entries) }];
        let told = self.ask_as(Asked { domain: domain.to_owned(), descriptors, hits_addend: 0 }).await?;
        Ok((told.overall_code == 1, told.statuses[0].limit_remaining))
    }

    async fn ask_as(&mut self, asked: Asked) -> Result<Told, Failed> {
        self.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", &asked).await
    }

    pub async fn health(&mut self, service: &str) -> Result<i32, Failed> {
        let asked = HealthAsked { service: service.to_owned() };
        self.call::<HealthTold>("/grpc.health.v1.Health/Check", &asked).await.map(|told| told.status)
    }

    /// Follows the health of a service.
    pub async fn watch(&mut self, service: &str) -> Result<Watching, Failed> {
        let asked = HealthAsked { service: service.to_owned() };
        let body = self.begin("/grpc.health.v1.Health/Watch", &asked).await?.into_body();
        Ok(Watching(body))
    }

    async fn call<T: Message + Default>(&mut self, path: &str, message: &impl Message) -> Result<T, Failed> {
        let (head, body) = self.begin(path, message).await?.into_parts();
        let body = soon("the whole answer", body.collect()).await.map_err(lost)?;
        let trailers: HashMap<_, _> = body.trailers().unwrap_or(&head.headers).iter().collect();
        let said = |name: &str| {
            trailers.iter().find(|(known, _)| known.as_str() == name).map(|(_, value)| value.to_str().unwrap())
        };
        match said("grpc-status").expect("a status").parse() {
            Ok(0) => Ok(T::decode(&body.to_bytes()[5..]).unwrap()),
            status => Err(Failed(status.ok(), said("grpc-message").unwrap_or_default().to_owned())),
        }
    }

    async fn begin(&mut self, path: &str, message: &impl Message) -> Result<Response<Incoming>, Failed> {
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
        soon("a connection that is ready", self.send.ready()).await.map_err(lost)?;
        let response = soon("an answer", self.send.send_request(request)).await.map_err(lost)?;
        assert_eq!(response.status(), StatusCode::OK);
        Ok(response)
    }
}

/// Health as it is told.
pub struct Watching(Incoming);

impl Watching {
    /// What is told next; nothing if no more comes.
    pub async fn next(&mut self) -> Result<Option<i32>, Failed> {
        loop {
            let Some(frame) = soon("to be told", self.0.frame()).await else { return Ok(None) };
            if let Ok(data) = frame.map_err(lost)?.into_data() {
                return Ok(Some(HealthTold::decode(&data[5..]).unwrap().status));
            }
        }
    }
}

fn lost(error: hyper::Error) -> Failed {
    Failed(None, error.to_string())
}
