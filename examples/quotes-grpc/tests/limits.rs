//! A real client and a real server: refusals as gRPC statuses, permits held by streams.
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

/// A server of its own, stopped when it is dropped.
struct Server {
    address: String,
    limits: LimitLayer,
    _stop: oneshot::Sender<()>,
}

impl Server {
    async fn start() -> Self {
        let settings = config::load(concat!(env!("CARGO_MANIFEST_DIR"), "/rules.yaml")).unwrap().settings;
        let sluice = Sluice::builder().rules(settings.rules).clock(ManualClock::new()).build().unwrap();
        let limits = LimitLayer::new(sluice);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (stop, stopped) = oneshot::channel::<()>();
        let layer = limits.clone();
        tokio::spawn(async move {
            let until = async { drop(stopped.await) };
            quotes_grpc::serve(listener, layer, until).await
        });
        Self { address, limits, _stop: stop }
    }

    async fn client(&self) -> QuotesClient<Channel> {
        QuotesClient::connect(self.address.clone()).await.unwrap()
    }
}

fn of(account: &str) -> Request<QuoteRequest> {
    let mut request = Request::new(QuoteRequest { symbol: "ACME".to_owned() });
    request.metadata_mut().insert("x-account", account.parse().unwrap());
    request
}

#[tokio::test]
async fn an_account_over_its_limit_is_told_so_in_grpc() {
    let server = Server::start().await;
    let mut client = server.client().await;
    for _ in 0..10 {
        let quote = client.get(of("alice")).await.unwrap();
        assert_eq!(quote.metadata().get("ratelimit-policy").unwrap(), "\"per-account\";q=10;w=2");
        assert_eq!(quote.into_inner().cents, 278);
    }
    let refused = client.get(of("alice")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.message(), "over the limit token_bucket 5/s, burst 10 of 'per-account': try again in 1 s");
    assert_eq!(refused.metadata().get("grpc-retry-pushback-ms").unwrap(), "200");
    assert_eq!(refused.metadata().get("retry-after").unwrap(), "1");
    assert!(client.get(of("bob")).await.is_ok());
}

#[tokio::test]
async fn all_connections_of_a_client_are_one_client() {
    let server = Server::start().await;
    let mut clients = [server.client().await, server.client().await];
    let mut admitted = 0;
    for nth in 0..120 {
        let account = format!("account-{nth}");
        admitted += u32::from(clients[nth % 2].get(of(&account)).await.is_ok());
    }
    assert_eq!(admitted, 100);
    assert_eq!(server.limits.unknown_peers(), 0);
}

#[tokio::test]
async fn a_stream_holds_its_permit_until_it_ends() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let mut first = client.watch(of("alice")).await.unwrap().into_inner();
    let second = client.watch(of("bob")).await.unwrap();
    assert!(first.message().await.unwrap().is_some());
    assert_eq!(client.watch(of("carol")).await.unwrap_err().code(), Code::ResourceExhausted);
    drop((first, second));
    // The server learns of it when the reset has travelled: ask until it has.
    let asked_until_admitted = async {
        while client.watch(of("dave")).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), asked_until_admitted).await.unwrap();
}
