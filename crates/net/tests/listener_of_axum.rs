//! `LimitedListener` under `axum::serve`: only connections are limited.

use crate::support;

use std::net::SocketAddr;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use axum::serve::ListenerExt;
use sluicegate_net::{LimitedListener, Peer};
use support::{connect, get as fetch, read_response, read_to_end, request, send, wait_until};

#[tokio::test]
async fn connections_are_limited_queued_and_rejected() {
    let listener =
        LimitedListener::builder().max_connections(2).queue(1).in_flight(1).bind("127.0.0.1:0").await.unwrap();
    let (at, handle) = (listener.local_addr().unwrap(), listener.handle());
    let app = Router::new()
        .route("/", get(|ConnectInfo(peer): ConnectInfo<Peer>| async move { peer.0.to_string() }))
        .layer(listener.in_flight_limit())
        .into_make_service_with_connect_info::<Peer>();
    let server = tokio::spawn(axum::serve(listener, app).into_future());

    let (mut first, mut second) = (connect(at).await, connect(at).await);
    for client in [&mut first, &mut second] {
        let own = client.local_addr().unwrap().to_string();
        assert!(fetch(client, "/").await.ends_with(&own));
    }
    let mut third = connect(at).await;
    send(&mut third, request("/")).await;
    wait_until("the third is queued", || handle.counts().queued == 1).await;
    assert!(read_to_end(&mut connect(at).await).await.starts_with("HTTP/1.1 503 "));
    drop(first);
    assert!(read_response(&mut third).await.starts_with("HTTP/1.1 200 "));
    let counts = handle.counts();
    assert_eq!((counts.open, counts.admitted, counts.rejected.full), (2, 3, 1));
    server.abort();
    drop((second, third));
    wait_until("all connections are closed", || handle.counts().open == 0).await;
}

#[tokio::test]
async fn connect_info_works_through_tap_io() {
    let listener = LimitedListener::builder().max_connections(2).queue(1).bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let peer = get(|ConnectInfo(address): ConnectInfo<SocketAddr>| async move { address.to_string() });
    let app = Router::new().route("/", peer).into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(axum::serve(listener.tap_io(|_| {}), app).into_future());
    let mut client = connect(at).await;
    let own = client.local_addr().unwrap().to_string();
    assert!(fetch(&mut client, "/").await.ends_with(&own));
    server.abort();
}
