//! The door under `axum::serve`: connections are bounded, and the rest is axum's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use axum::serve::ListenerExt;
use sluicegate_door::{FrontDoor, Peer};
use support::{answer, connect, get as ask, request, rest, send, until};

#[tokio::test]
async fn connections_are_bounded_queued_and_refused() {
    let door = FrontDoor::builder().max_connections(2).queue(1).in_flight(1).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (door.local_addr().unwrap(), door.handle());
    let app = Router::new()
        .route("/", get(|ConnectInfo(peer): ConnectInfo<Peer>| async move { peer.0.to_string() }))
        .layer(door.workers())
        .into_make_service_with_connect_info::<Peer>();
    let server = tokio::spawn(axum::serve(door, app).into_future());

    let (mut first, mut second) = (connect(at).await, connect(at).await);
    for client in [&mut first, &mut second] {
        let own = client.local_addr().unwrap().to_string();
        assert!(ask(client, "/").await.ends_with(&own));
    }
    let mut third = connect(at).await;
    send(&mut third, request("/")).await;
    until("the third waits", || handle.counts().queued == 1).await;
    assert!(rest(&mut connect(at).await).await.starts_with("HTTP/1.1 503 "));
    drop(first);
    assert!(answer(&mut third).await.starts_with("HTTP/1.1 200 "));
    let counts = handle.counts();
    assert_eq!((counts.open, counts.entered, counts.refused.full), (2, 3, 1));
    server.abort();
    drop((second, third));
    until("the door is empty", || handle.counts().open == 0).await;
}

#[tokio::test]
async fn the_address_comes_as_usual_through_a_tap() {
    let door = FrontDoor::builder().max_connections(2).queue(1).bind("127.0.0.1:0").await.unwrap();
    let at = door.local_addr().unwrap();
    let who = get(|ConnectInfo(address): ConnectInfo<SocketAddr>| async move { address.to_string() });
    let app = Router::new().route("/", who).into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(axum::serve(door.tap_io(|_| {}), app).into_future());
    let mut client = connect(at).await;
    let own = client.local_addr().unwrap().to_string();
    assert!(ask(&mut client, "/").await.ends_with(&own));
    server.abort();
}
