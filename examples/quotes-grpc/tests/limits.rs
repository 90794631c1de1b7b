//! Tests with a real client and server: gRPC statuses of refusals, and permits of streams.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use quotes_grpc::quotes::QuoteRequest;
use quotes_grpc::quotes::quotes_client::QuotesClient;
use sluicegate::clock::ManualClock;
use sluicegate::tower::LimitLayer;
use sluicegate::{Sluice, config};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Code, Request};

/// Test server, stopped on drop.
struct TestServer {
    address: String,
    limits: LimitLayer,
    _stop: oneshot::Sender<()>,
}

impl TestServer {
    async fn start() -> Self {
        let settings = config::load(concat!(env!("CARGO_MANIFEST_DIR"), "/rules.yaml")).unwrap().settings;
        let sluice = Sluice::builder().rules(settings.rules).clock(ManualClock::new()).build().unwrap();
        let limits = LimitLayer::new(sluice);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let layer = limits.clone();
        tokio::spawn(async move {
            let shutdown = async { drop(stopped.await) };
            quotes_grpc::serve(listener, layer, shutdown).await
        });
        Self { address, limits, _stop: stop }
    }

    async fn client(&self) -> QuotesClient<Channel> {
        QuotesClient::connect(self.address.clone()).await.unwrap()
    }
}

fn request_for(account: &str) -> Request<QuoteRequest> {
    let mut request = Request::new(QuoteRequest { symbol: "ACME".to_owned() });
    request.metadata_mut().insert("x-account", account.parse().unwrap());
    request
}

#[tokio::test]
async fn an_account_over_its_limit_gets_resource_exhausted() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    for _ in 0..10 {
        let quote = client.get(request_for("alice")).await.unwrap();
        assert_eq!(quote.metadata().get("ratelimit-policy").unwrap(), "\"per-account\";q=10;w=2");
        assert_eq!(quote.into_inner().cents, 278);
    }
    let refused = client.get(request_for("alice")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "over the limit token_bucket 5/s, burst 10 of 'per-account': try again in 1 s");
    assert_eq!(refused.metadata().get("grpc-retry-pushback-ms").unwrap(), "200");
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "1");
    assert!(client.get(request_for("bob")).await.is_ok());
}

#[tokio::test]
async fn all_connections_of_a_client_share_one_key() {
    let server = TestServer::start().await;
    let mut clients = [server.client().await, server.client().await];
    let mut admitted = 0;
    for index in 0..120 {
        let account = format!("account-{index}");
        admitted += u32::from(clients[index % 2].get(request_for(&account)).await.is_ok());
    }
    assert_eq!(admitted, 100);
    assert_eq!(server.limits.unknown_peers(), 0);
}

#[tokio::test]
async fn a_stream_holds_its_permit_until_it_closes() {
    let server = TestServer::start().await;
    let mut client = server.client().await;
    let mut first = client.watch(request_for("alice")).await.unwrap().into_inner();
    let second = client.watch(request_for("bob")).await.unwrap();
    assert!(first.message().await.unwrap().is_some());
    assert_eq!(client.watch(request_for("carol")).await.unwrap_err().code(), Code::ResourceExhausted);
    drop((first, second));
    // The server releases the permits when it receives the stream resets: retry until then.
    let retry_until_admitted = async {
        while client.watch(request_for("dave")).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), retry_until_admitted).await.unwrap();
}
