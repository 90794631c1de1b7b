//! Timeouts and expiry with a manual clock, and remote callers.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use sluicegate_engine::clock::{ClockHandle, ManualClock};

use super::{RulesFixture, TestResponse, WRITE, call};
use crate::http::Api;
use crate::tokens::Tokens;

struct ManualClockApi {
    clock: ManualClock,
    fixture: RulesFixture,
    api: Api,
}

impl ManualClockApi {
    fn new(tokens: Option<&str>) -> Self {
        let clock = ManualClock::new();
        let fixture = RulesFixture::new(ClockHandle::new(clock.clone()));
        let tokens = tokens.map(|text| {
            super::write(&fixture.folder, "tokens", text);
            Tokens::read(&fixture.folder.join("tokens")).unwrap()
        });
        let api = Api::new(fixture.providers(), tokens);
        Self { clock, fixture, api }
    }

    async fn send<B: Body<Data = Bytes>>(&self, request: Request<B>, peer: &str) -> TestResponse {
        let (head, body) = self.api.handle(request, peer.parse().unwrap()).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        TestResponse { status: head.status, headers: head.headers, body }
    }
}

/// A body that never ends.
struct EndlessBody(bool);

impl Body for EndlessBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if std::mem::take(&mut self.0) {
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{")))))
        } else {
            Poll::Pending
        }
    }
}

/// Polls once, and returns true if it is pending.
async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn a_stalled_body_times_out() {
    let api = ManualClockApi::new(Some(super::TOKENS));
    let request = call("POST", "/v1/explain", Some(WRITE), Some("")).map(|_| EndlessBody(true));
    let mut response = pin!(api.send(request, "127.0.0.1:1"));
    assert!(is_pending(response.as_mut()).await);
    api.clock.advance(Duration::from_secs(9));
    assert!(is_pending(response.as_mut()).await);
    api.clock.advance(Duration::from_secs(1));
    response.await.assert_problem(400, "unreadable", "timeout");
}

#[tokio::test]
async fn list_entries_expire() {
    let api = ManualClockApi::new(Some(super::TOKENS));
    let add = async |body: &str| api.send(call("POST", "/v1/lists/deny", Some(WRITE), Some(body)), "127.0.0.1:1").await;
    assert_eq!(add(r#"{"condition":"account == 'a'","for":"10s"}"#).await.status, 201);
    assert_eq!(add(r#"{"condition":"account == 'b'","for":"20s"}"#).await.status, 201);
    assert_eq!(add(r#"{"condition":"account == 'c'"}"#).await.status, 201);
    // Adding it again renews its lifetime.
    assert_eq!(add(r#"{"condition":"account == 'a'","for":"30s"}"#).await.status, 201);
    let mut left = Vec::new();
    for _ in 0..4 {
        api.api.expire();
        left.push(api.fixture.sluice.lists().1.deny.len());
        api.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(left, [3, 3, 2, 1]);
}

#[tokio::test]
async fn remote_callers_are_forbidden_without_tokens() {
    let api = ManualClockApi::new(None);
    let send = async |path: &str, peer: &str| {
        let request = Request::get(path).header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
        api.send(request, peer).await
    };
    for peer in ["192.0.2.1:1", "10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"] {
        send("/v1/status", peer).await.assert_problem(403, "forbidden", "remote access needs a token");
        send("/metrics", peer).await.assert_problem(403, "forbidden", "set `admin.token_file`");
        assert_eq!(send("/healthz", peer).await.status, 200);
    }
    for peer in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(send("/v1/status", peer).await.status, 200, "{peer}");
    }
}

#[tokio::test]
async fn tokens_are_replaced_at_runtime() {
    let api = ManualClockApi::new(Some(super::TOKENS));
    let send = async |token: &str| api.send(call("GET", "/v1/status", Some(token), None), "127.0.0.1:1").await.status;
    assert_eq!((send(WRITE).await.as_u16(), send("carol-carol-carol").await.as_u16()), (200, 401));
    std::fs::write(api.fixture.folder.join("tokens"), "carol carol-carol-carol").unwrap();
    api.api.set_tokens(Tokens::read(&api.fixture.folder.join("tokens")).unwrap());
    assert_eq!((send(WRITE).await.as_u16(), send("carol-carol-carol").await.as_u16()), (401, 200));
}

#[tokio::test]
async fn a_draining_process_is_not_ready() {
    let api = ManualClockApi::new(None);
    api.api.drain();
    let response = api.send(call("GET", "/readyz", None, None), "192.0.2.1:1").await;
    response.assert_problem(503, "unavailable", "shutting down");
}
