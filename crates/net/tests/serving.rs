//! Serving requests: peer address, head size, invalid input, upgrades.

use crate::support;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{Response, StatusCode};
use axum::routing::get;
use hyper_util::rt::TokioIo;
use sluicegate_net::{LimitedListener, Peer};
use support::{Server, TEST_TIMEOUT, connect, get as fetch, read_response, read_to_end, send, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const GRACE: Duration = Duration::from_secs(1);

async fn listener() -> LimitedListener {
    LimitedListener::builder().max_connections(20).queue(0).header_bytes(16 << 10).bind("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn the_service_receives_the_peer_address() {
    let peer = |ConnectInfo(address): ConnectInfo<std::net::SocketAddr>, request: Request| async move {
        let peer = request.extensions().get::<Peer>().copied();
        assert_eq!(peer, Some(Peer(address)));
        address.to_string()
    };
    let server = Server::of(listener().await, Router::new().route("/", get(peer)), GRACE);
    let mut client = connect(server.at).await;
    let own = client.local_addr().unwrap().to_string();
    assert!(fetch(&mut client, "/").await.ends_with(&own));
}

#[tokio::test]
async fn oversized_request_heads_get_431() {
    let server = Server::of(listener().await, Router::new().route("/", get(|| async { "hello" })), GRACE);
    let head = |bytes: usize| format!("GET / HTTP/1.1\r\nhost: shop\r\nx: {}\r\n\r\n", "x".repeat(bytes));
    let mut client = connect(server.at).await;
    send(&mut client, head(15 << 10)).await;
    assert!(read_response(&mut client).await.ends_with("hello"));
    let mut client = connect(server.at).await;
    send(&mut client, head(17 << 10)).await;
    assert!(read_response(&mut client).await.starts_with("HTTP/1.1 431 "));
    assert!(fetch(&mut connect(server.at).await, "/").await.ends_with("hello"));
}

#[tokio::test]
async fn non_http_bytes_are_rejected_and_serving_continues() {
    let server = Server::of(listener().await, Router::new().route("/", get(|| async { "hello" })), GRACE);
    for invalid in
        [&b"\0\0\0\0"[..], b"\x16\x03\x01\x02\0\x01", b"GET\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense!"]
    {
        let mut client = connect(server.at).await;
        send(&mut client, invalid).await;
        send(&mut client, b"\r\n\r\n").await;
        let mut all = Vec::new();
        drop(timeout(TEST_TIMEOUT, client.read_to_end(&mut all)).await.unwrap());
    }
    wait_until("all connections are closed", || server.handle.counts().open == 0).await;
    assert!(fetch(&mut connect(server.at).await, "/").await.ends_with("hello"));
}

#[tokio::test]
async fn an_upgraded_connection_holds_its_permit_until_it_ends() {
    async fn echo(mut request: Request) -> Response<Body> {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(async move {
            let mut stream = TokioIo::new(upgrade.await.unwrap());
            let mut message = [0; 4];
            stream.read_exact(&mut message).await.unwrap();
            stream.write_all(&message).await.unwrap();
        });
        let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
        response.header("connection", "upgrade").header("upgrade", "echo").body(Body::empty()).unwrap()
    }
    let server = Server::of(listener().await, Router::new().route("/", get(echo)), GRACE);
    let mut client = connect(server.at).await;
    send(&mut client, "GET / HTTP/1.1\r\nhost: shop\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n").await;
    assert!(read_response(&mut client).await.starts_with("HTTP/1.1 101 "));
    assert_eq!(server.handle.counts().open, 1);
    send(&mut client, "ping").await;
    assert_eq!(read_to_end(&mut client).await, "ping");
    wait_until("all connections are closed", || server.handle.counts().open == 0).await;
}
