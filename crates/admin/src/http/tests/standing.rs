//! What takes time, on a clock that stands still; and callers from elsewhere.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use sluicegate_engine::clock::{ClockHandle, ManualClock};

use super::{Answer, Kept, WRITE, call};
use crate::http::Api;
use crate::tokens::Tokens;

struct Still {
    clock: ManualClock,
    kept: Kept,
    api: Api,
}

impl Still {
    fn new(tokens: Option<&str>) -> Self {
        let clock = ManualClock::new();
        let kept = Kept::new(ClockHandle::new(clock.clone()));
        let tokens = tokens.map(|text| {
            super::write(&kept.folder, "tokens", text);
            Tokens::read(&kept.folder.join("tokens")).unwrap()
        });
        let api = Api::new(kept.sources(), tokens);
        Self { clock, kept, api }
    }

    async fn answer<B: Body<Data = Bytes>>(&self, request: Request<B>, peer: &str) -> Answer {
        let (head, body) = self.api.answer(request, peer.parse().unwrap()).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status, headers: head.headers, body }
    }
}

/// A body whose end never comes.
struct Endless(bool);

impl Body for Endless {
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

/// Goes on with it once, and answers whether there is more to wait for.
async fn is_pending(mut future: Pin<&mut impl Future>) -> bool {
    std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let still = Still::new(Some(super::TOKENS));
    let request = call("POST", "/v1/explain", Some(WRITE), Some("")).map(|_| Endless(true));
    let mut answer = pin!(still.answer(request, "127.0.0.1:1"));
    assert!(is_pending(answer.as_mut()).await);
    still.clock.advance(Duration::from_secs(9));
    assert!(is_pending(answer.as_mut()).await);
    still.clock.advance(Duration::from_secs(1));
    answer.await.is_problem(400, "unreadable", "did not come in time");
}

#[tokio::test]
async fn an_entry_goes_when_its_time_is_up() {
    let still = Still::new(Some(super::TOKENS));
    let add =
        async |body: &str| still.answer(call("POST", "/v1/lists/deny", Some(WRITE), Some(body)), "127.0.0.1:1").await;
    assert_eq!(add(r#"{"condition":"account == 'a'","for":"10s"}"#).await.status, 201);
    assert_eq!(add(r#"{"condition":"account == 'b'","for":"20s"}"#).await.status, 201);
    assert_eq!(add(r#"{"condition":"account == 'c'"}"#).await.status, 201);
    // Said anew, it lasts anew.
    assert_eq!(add(r#"{"condition":"account == 'a'","for":"30s"}"#).await.status, 201);
    let mut left = Vec::new();
    for _ in 0..4 {
        still.api.expire();
        left.push(still.kept.sluice.lists().1.deny.len());
        still.clock.advance(Duration::from_secs(10));
    }
    assert_eq!(left, [3, 3, 2, 1]);
}

#[tokio::test]
async fn without_tokens_nobody_elsewhere_may_look() {
    let still = Still::new(None);
    let ask = async |path: &str, peer: &str| {
        let request = Request::get(path).header("host", "localhost").body(Full::<Bytes>::default()).unwrap();
        still.answer(request, peer).await
    };
    for peer in ["192.0.2.1:1", "10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"] {
        ask("/v1/status", peer).await.is_problem(403, "forbidden", "only this machine may look");
        ask("/metrics", peer).await.is_problem(403, "forbidden", "set `admin.token`");
        assert_eq!(ask("/healthz", peer).await.status, 200);
    }
    for peer in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert_eq!(ask("/v1/status", peer).await.status, 200, "{peer}");
    }
}

#[tokio::test]
async fn tokens_are_exchanged_while_it_runs() {
    let still = Still::new(Some(super::TOKENS));
    let ask =
        async |token: &str| still.answer(call("GET", "/v1/status", Some(token), None), "127.0.0.1:1").await.status;
    assert_eq!((ask(WRITE).await.as_u16(), ask("carol-carol-carol").await.as_u16()), (200, 401));
    std::fs::write(still.kept.folder.join("tokens"), "carol carol-carol-carol").unwrap();
    still.api.set_tokens(Tokens::read(&still.kept.folder.join("tokens")).unwrap());
    assert_eq!((ask(WRITE).await.as_u16(), ask("carol-carol-carol").await.as_u16()), (401, 200));
}

#[tokio::test]
async fn who_is_about_to_stop_is_not_ready() {
    let still = Still::new(None);
    still.api.drain();
    let answer = still.answer(call("GET", "/readyz", None, None), "192.0.2.1:1").await;
    answer.is_problem(503, "unavailable", "about to stop");
}
