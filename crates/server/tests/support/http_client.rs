//! HTTP/1.1 client with a persistent connection.

use std::io;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use serde_json::Value;

use super::endpoint::TestEndpoint;
use super::with_timeout;

pub struct TestHttpClient {
    send: SendRequest<Full<Bytes>>,
    pub secret: Option<String>,
}

#[derive(Debug)]
pub struct TestHttpResponse {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl TestHttpResponse {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn closes_connection(&self) -> bool {
        self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

impl TestHttpClient {
    pub async fn connect(endpoint: &TestEndpoint) -> io::Result<Self> {
        let io = endpoint.connect(b"http/1.1").await?;
        let (send, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(io::Error::other)?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { send, secret: None })
    }

    pub async fn get(&mut self, path: &str) -> io::Result<TestHttpResponse> {
        self.call("GET", path, &[], "").await
    }

    pub async fn post(&mut self, path: &str, body: &str) -> io::Result<TestHttpResponse> {
        self.call("POST", path, &[("content-type", "application/json")], body).await
    }

    /// `/v1/check` of a rule for an account: allowed, remaining, degraded.
    pub async fn check(&mut self, rule: &str, account: &str) -> io::Result<(bool, i64, bool)> {
        let body = format!(r#"{{"rule":"{rule}","attributes":{{"account":"{account}"}}}}"#);
        let response = self.post("/v1/check", &body).await?;
        assert_eq!(response.status, 200, "{response:?}");
        let decision = response.json();
        let remaining = decision["limits"][0]["remaining"].as_i64().unwrap_or(-1);
        Ok((decision["allowed"] == true, remaining, decision["degraded"] == true))
    }

    pub async fn call(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<TestHttpResponse> {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(secret) = &self.secret {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        let request = request.body(Full::from(body.to_owned())).unwrap();
        with_timeout("the connection is ready", self.send.ready()).await.map_err(io::Error::other)?;
        let response = with_timeout("a response", self.send.send_request(request)).await.map_err(io::Error::other)?;
        let (head, body) = response.into_parts();
        let body = with_timeout("the response body", body.collect()).await.map_err(io::Error::other)?.to_bytes();
        Ok(TestHttpResponse { status: head.status.as_u16(), headers: head.headers, body })
    }
}
