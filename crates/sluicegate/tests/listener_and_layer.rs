//! Limited listener and layer combined: the layer sees the peer address with our server and with axum's.

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use reqwest::Client;
use sluicegate::Sluice;
use sluicegate::clock::ManualClock;
use sluicegate::listener::{LimitedListener, Peer};
use sluicegate::rule::{Attribute, Rule};
use sluicegate::tower::LimitLayer;

fn limits() -> LimitLayer {
    let mut per_ip = Rule::new("per-ip", ["2/1h".parse().unwrap()]);
    per_ip.key = vec![Attribute::ClientIp.into()];
    LimitLayer::new(Sluice::builder().rule(per_ip).clock(ManualClock::new()).build().unwrap())
}

fn app(limits: &LimitLayer) -> Router {
    Router::new().route("/", get(async || "hello")).layer(limits.clone())
}

/// The statuses of three requests of each of two clients.
async fn statuses(address: SocketAddr) -> Vec<u16> {
    let mut statuses = Vec::new();
    for client in ["127.0.0.2", "127.0.0.3"] {
        let client = Client::builder().no_proxy().local_address(client.parse().ok()).build().unwrap();
        for _ in 0..3 {
            let response = client.get(format!("http://{address}/")).send().await.unwrap();
            statuses.push(response.status().as_u16());
        }
    }
    statuses
}

#[tokio::test]
async fn clients_are_keyed_separately_behind_our_server() {
    let limits = limits();
    let listener = LimitedListener::builder().bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(listener.serve(app(&limits)).into_future());
    assert_eq!(statuses(address).await, [200, 200, 429, 200, 200, 429]);
    assert_eq!(limits.unknown_peers(), 0);
    serving.abort();
}

#[tokio::test]
async fn clients_are_keyed_separately_behind_axums_server() {
    let limits = limits();
    let listener = LimitedListener::builder().bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app(&limits).into_make_service_with_connect_info::<Peer>();
    let serving = tokio::spawn(axum::serve(listener, app).into_future());
    assert_eq!(statuses(address).await, [200, 200, 429, 200, 200, 429]);
    assert_eq!(limits.unknown_peers(), 0);
    serving.abort();
}
