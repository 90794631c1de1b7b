//! Graceful shutdown: in-flight requests complete, and shutdown time is bounded.

use std::io;
use std::time::Duration;

use sluicegate_net::Shutdown;

use crate::support::decision_server::TestDecisionServer;
use crate::support::http_client::TestHttpClient;
use crate::support::resp::{RespReply, TestRespClient};
use crate::support::rls::{NOT_SERVING, RlsError, SERVING, TestRlsClient};
use crate::support::temp_dir::TempDir;
use crate::support::with_timeout;

const RULES: &str = "
server: { rls: 127.0.0.1:0, http: 127.0.0.1:0, resp: 127.0.0.1:0, threads: 2, timeouts: { drain: 20s } }
rules:
  - { name: jobs, match: service jobs, limits: [{ concurrency: 1 }], on_limit: { queue: { max_wait: 30s, max_waiting: 5 } } }
  - { name: paced, direction: descriptor, match: service edge, limits: [{ leaky_bucket: 1/s, queue: 5 }] }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_flight_calls_complete_during_shutdown() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, RULES);
    let endpoints = [0, 1, 2].map(|index| served.endpoint(index));
    let mut holder = TestHttpClient::connect(&endpoints[1]).await.unwrap();
    assert_eq!(holder.post("/v1/permits", r#"{"rule":"jobs","ttl":"1m"}"#).await.unwrap().status, 201);
    let mut waiter = TestHttpClient::connect(&endpoints[1]).await.unwrap();
    let waiting = tokio::spawn(async move { waiter.post("/v1/permits", r#"{"rule":"jobs","wait":"1500ms"}"#).await });
    let mut paced = TestRlsClient::connect(&endpoints[0]).await.unwrap();
    assert!(paced.check("edge", &[("a", "b")]).await.unwrap().0);
    // Delayed by one second.
    let paced_call = tokio::spawn(async move { paced.check("edge", &[("a", "b")]).await });
    let mut idle = TestRespClient::connect(&endpoints[2]).await.unwrap();
    idle.call(&["PING"]).await.unwrap();
    let mut keep_alive = TestHttpClient::connect(&endpoints[1]).await.unwrap();
    assert_eq!(keep_alive.get("/healthcheck").await.unwrap().status, 200);
    // Give all requests time to be in flight; a later one would be served while connections close.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopping = tokio::spawn(served.stop(Shutdown::Close));
    with_timeout("the idle connection closes", async { while idle.call(&["PING"]).await.is_ok() {} }).await;
    // Requests on an open connection get a response that closes the connection.
    let response = keep_alive.get("/healthcheck").await.unwrap();
    assert_eq!((response.status, response.closes_connection()), (500, true));
    // The socket may close between the connection and the request.
    let is_refused = match TestHttpClient::connect(&endpoints[1]).await {
        Ok(mut client) => client.get("/healthz").await.is_err(),
        Err(_) => true,
    };
    assert!(is_refused);
    let waited = with_timeout("the response", waiting).await.unwrap().unwrap();
    assert_eq!((waited.status, waited.json()["allowed"].as_bool()), (200, Some(false)));
    assert!(with_timeout("the response", paced_call).await.unwrap().unwrap().0);
    let report = with_timeout("the server stops", stopping).await.unwrap();
    assert_eq!(report.aborted, 0);
}

/// A request that waits for a permit during shutdown gets it when another permit expires, on any thread.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_expire_during_shutdown_while_requests_wait() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, RULES);
    let endpoint = served.endpoint(1);
    let mut holder = TestHttpClient::connect(&endpoint).await.unwrap();
    assert_eq!(holder.post("/v1/permits", r#"{"rule":"jobs","ttl":"1s"}"#).await.unwrap().status, 201);
    // Five waiters hold the permit for a second each: it is unlikely that all are on one thread.
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let endpoint = endpoint.clone();
            tokio::spawn(async move {
                let mut web = TestHttpClient::connect(&endpoint).await.unwrap();
                web.post("/v1/permits", r#"{"rule":"jobs","ttl":"1s","wait":"15s"}"#).await.unwrap().status
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let stopping = tokio::spawn(served.stop(Shutdown::Close));
    for waiting in waiting {
        assert_eq!(with_timeout("the response", waiting).await.unwrap(), 201);
    }
    assert_eq!(with_timeout("the server stops", stopping).await.unwrap().aborted, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn received_commands_get_complete_replies() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, RULES);
    let mut resp = TestRespClient::connect(&served.endpoint(2)).await.unwrap();
    let args = ["CL.THROTTLE", "k", "10000", "1", "60"];
    let client_task = tokio::spawn(async move {
        let mut replies = 0;
        loop {
            for _ in 0..100 {
                if resp.send(&args).await.is_err() {
                    break;
                }
            }
            for _ in 0..100 {
                match resp.reply().await {
                    Ok(RespReply::Array(list)) => assert_eq!(list.len(), 5),
                    Ok(other) => panic!("{other:?}"),
                    // A reply is never truncated.
                    Err(error) => {
                        let kinds = [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset];
                        assert!(kinds.contains(&error.kind()), "{error}");
                        assert!(resp.0.buffer().is_empty());
                        return replies;
                    }
                }
                replies += 1;
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let report = served.stop(Shutdown::Close).await;
    assert_eq!(report.aborted, 0);
    assert!(with_timeout("the client is disconnected", client_task).await.unwrap() > 0);
}

/// Load balancers poll health every few seconds. Requests that arrive until the next poll are still served.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draining_server_still_serves_all_requests() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, &RULES.replace("threads: 2", "threads: 2, shutdown_delay: 10m"));
    let endpoints = [0, 1, 2].map(|index| served.endpoint(index));
    let mut watcher = TestRlsClient::connect(&endpoints[0]).await.unwrap();
    let mut health = watcher.watch("ratelimit").await.unwrap();
    assert_eq!(health.next().await, Ok(Some(SERVING)));
    {
        let mut draining = std::pin::pin!(served.running.drain());
        let status = tokio::select! {
            () = &mut draining => panic!("the shutdown delay is not over"),
            status = health.next() => status,
        };
        assert_eq!(status, Ok(Some(NOT_SERVING)));
        // New connections are served while health checks report NOT_SERVING.
        let mut late_client = TestRlsClient::connect(&endpoints[0]).await.unwrap();
        assert_eq!(late_client.health("ratelimit").await, Ok(NOT_SERVING));
        assert!(late_client.check("edge", &[("a", "b")]).await.unwrap().0);
        let mut web = TestHttpClient::connect(&endpoints[1]).await.unwrap();
        assert_eq!(web.get("/healthcheck").await.unwrap().status, 500);
        let checked = web.post("/v1/check", "{}").await.unwrap();
        assert_eq!((checked.status, checked.closes_connection()), (200, false));
        TestRespClient::connect(&endpoints[2]).await.unwrap().call(&["PING"]).await.unwrap();
        assert_eq!(watcher.health("").await, Ok(NOT_SERVING), "the open connection is still served");
    }
    let stopping = tokio::spawn(served.stop(Shutdown::Close));
    let end = health.next().await;
    assert!(matches!(end, Ok(None) | Err(RlsError(..))), "{end:?}");
    assert_eq!(with_timeout("the server stops", stopping).await.unwrap().aborted, 0);
}

/// Without `shutdown_delay`, shutdown is immediate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_shutdown_delay_the_drain_is_immediate() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, RULES);
    with_timeout("the drain completes", served.running.drain()).await;
    assert_eq!(
        TestHttpClient::connect(&served.endpoint(1)).await.unwrap().get("/healthcheck").await.unwrap().status,
        200
    );
    assert_eq!(served.stop(Shutdown::Close).await.aborted, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_watchers_are_notified_and_closed() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, RULES);
    let mut watcher = TestRlsClient::connect(&served.endpoint(0)).await.unwrap();
    let mut health = watcher.watch("ratelimit").await.unwrap();
    assert_eq!(health.next().await, Ok(Some(1)));
    let stopping = tokio::spawn(served.stop(Shutdown::Close));
    assert_eq!(health.next().await, Ok(Some(NOT_SERVING)));
    // The watch ends with the server, long before the drain timeout.
    let end = health.next().await;
    assert!(matches!(end, Ok(None) | Err(RlsError(..))), "{end:?}");
    let report = with_timeout("the server stops", stopping).await.unwrap();
    assert_eq!(report.aborted, 0);
}
