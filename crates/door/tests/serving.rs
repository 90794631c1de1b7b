//! What the door does around a request besides counting it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{Response, StatusCode};
use axum::routing::get;
use hyper_util::rt::TokioIo;
use sluicegate_door::{FrontDoor, Peer};
use support::{GUARD, Server, answer, connect, get as ask, rest, send, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const GRACE: Duration = Duration::from_secs(1);

async fn door() -> FrontDoor {
    FrontDoor::builder().max_connections(20).queue(0).header_bytes(16 << 10).bind("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn the_app_is_told_who_asks() {
    let who = |ConnectInfo(address): ConnectInfo<std::net::SocketAddr>, request: Request| async move {
        let peer = request.extensions().get::<Peer>().copied();
        assert_eq!(peer, Some(Peer(address)));
        address.to_string()
    };
    let server = Server::of(door().await, Router::new().route("/", get(who)), GRACE);
    let mut client = connect(server.at).await;
    let own = client.local_addr().unwrap().to_string();
    assert!(ask(&mut client, "/").await.ends_with(&own));
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused_and_the_door_goes_on() {
    let server = Server::of(door().await, Router::new().route("/", get(|| async { "hello" })), GRACE);
    let head = |bytes: usize| format!("GET / HTTP/1.1\r\nhost: door\r\nx: {}\r\n\r\n", "x".repeat(bytes));
    let mut client = connect(server.at).await;
    send(&mut client, head(15 << 10)).await;
    assert!(answer(&mut client).await.ends_with("hello"));
    let mut client = connect(server.at).await;
    send(&mut client, head(17 << 10)).await;
    assert!(answer(&mut client).await.starts_with("HTTP/1.1 431 "));
    assert!(ask(&mut connect(server.at).await, "/").await.ends_with("hello"));
}

#[tokio::test]
async fn what_is_no_http_is_refused_and_the_door_goes_on() {
    let server = Server::of(door().await, Router::new().route("/", get(|| async { "hello" })), GRACE);
    for nonsense in
        [&b"\0\0\0\0"[..], b"\x16\x03\x01\x02\0\x01", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense!"]
    {
        let mut client = connect(server.at).await;
        send(&mut client, nonsense).await;
        send(&mut client, b"\r\n\r\n").await;
        let mut all = Vec::new();
        drop(timeout(GUARD, client.read_to_end(&mut all)).await.unwrap());
    }
    until("the door is empty", || server.handle.counts().open == 0).await;
    assert!(ask(&mut connect(server.at).await, "/").await.ends_with("hello"));
}

#[tokio::test]
async fn an_upgraded_connection_keeps_its_place_until_it_ends() {
    async fn echo(mut request: Request) -> Response<Body> {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            let mut word = [0; 4];
            stream.read_exact(&mut word).await.unwrap();
            stream.write_all(&word).await.unwrap();
        });
        let answer = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        answer.header("connection", "upgrade").header("upgrade", "echo").body(Body::empty()).unwrap()
    }
    let server = Server::of(door().await, Router::new().route("/", get(echo)), GRACE);
    let mut client = connect(server.at).await;
    send(&mut client, "GET / HTTP/1.1\r\nhost: door\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n").await;
    assert!(answer(&mut client).await.starts_with("HTTP/1.1 101 "));
    assert_eq!(server.handle.counts().open, 1);
    send(&mut client, "ping").await;
    assert_eq!(rest(&mut client).await, "ping");
    until("the door is empty", || server.handle.counts().open == 0).await;
}
