//! Connection limits: connections over the maximum are refused and do not affect open ones.

use crate::endpoints::RULES;
use crate::support::decision_server::TestDecisionServer;
use crate::support::endpoint::TestEndpoint;
use crate::support::http_client::TestHttpClient;
use crate::support::resp::TestRespClient;
use crate::support::rls::TestRlsClient;
use crate::support::temp_dir::TempDir;
use crate::support::wait_until;

const ALL_PROTOCOLS: &str =
    "server:\n  rls: 127.0.0.1:0\n  http: 127.0.0.1:0\n  resp: { address: \"127.0.0.1:0\", unix: s }\n";

async fn connect_and_ping(endpoint: &TestEndpoint) -> Option<TestRespClient> {
    let mut resp = TestRespClient::connect(endpoint).await.ok()?;
    resp.call(&["PING"]).await.ok().map(|_| resp)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_over_the_maximum_are_refused() {
    let dir = TempDir::new();
    let served =
        TestDecisionServer::start(&dir, &format!("{ALL_PROTOCOLS}  connections: {{ max: 4, queue: 0 }}\n{RULES}"));
    let endpoint = served.endpoint(2);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(connect_and_ping(&endpoint).await.expect("a slot is free"));
    }
    // The maximum applies to all protocols together.
    let mut web = TestHttpClient::connect(&served.endpoint(1)).await.unwrap();
    assert_eq!(web.get("/healthz").await.unwrap().status, 200);
    for _ in 0..20 {
        assert!(connect_and_ping(&endpoint).await.is_none());
        assert!(TestRlsClient::connect(&served.endpoint(0)).await.unwrap().health("").await.is_err());
        let refused = TestHttpClient::connect(&served.endpoint(1)).await.unwrap().get("/healthz").await;
        assert!(refused.is_err(), "{refused:?}");
    }
    let counts = served.running.monitor().listener().counts();
    assert_eq!((counts.open, counts.rejected.full), (4, 60));
    // Open connections are served, and a closed connection frees its slot.
    assert_eq!(clients[0].check("per-account", "alice").await.unwrap(), (true, 6, false));
    clients.clear();
    drop(web);
    wait_until("all are closed", async || served.running.monitor().listener().counts().open == 0).await;
    assert!(connect_and_ping(&endpoint).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_client_is_limited_to_its_connection_share() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(
        &dir,
        &format!("{ALL_PROTOCOLS}  connections: {{ max: 100, per_client: 2 }}\n{RULES}"),
    );
    let clients = [connect_and_ping(&served.endpoint(2)).await, connect_and_ping(&served.endpoint(2)).await];
    assert!(clients.iter().all(Option::is_some));
    for _ in 0..5 {
        assert!(connect_and_ping(&served.endpoint(2)).await.is_none());
    }
    assert_eq!(served.running.monitor().listener().counts().rejected.per_client, 5);
    drop(clients);
    wait_until("both are closed", async || served.running.monitor().listener().counts().open == 0).await;
    assert!(connect_and_ping(&served.endpoint(2)).await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_connections_do_not_block_others() {
    let dir = TempDir::new();
    let served = TestDecisionServer::start(&dir, &format!("{ALL_PROTOCOLS}  threads: 2\n{RULES}"));
    let mut idle = Vec::new();
    for _ in 0..1_000 {
        idle.push(TestRespClient::connect(&served.endpoint(2)).await.unwrap());
    }
    wait_until("all are connected", async || served.running.monitor().listener().counts().open == 1_000).await;
    let mut web = TestHttpClient::connect(&served.endpoint(1)).await.unwrap();
    let mut rls = TestRlsClient::connect(&served.endpoint(0)).await.unwrap();
    let mut resp = TestRespClient::connect(&TestEndpoint::Unix(dir.file_path("s"))).await.unwrap();
    for index in 0..100 {
        let account = format!("account-{index}");
        assert_eq!(web.check("per-account", &account).await.unwrap(), (true, 6, false));
        assert_eq!(resp.check("per-account", &account).await.unwrap(), (true, 5, false));
        assert_eq!(rls.check("edge", &[("account", &account)]).await.unwrap(), (true, 6));
    }
    for client in idle.iter_mut().step_by(100) {
        assert!(client.call(&["PING"]).await.is_ok());
    }
    drop((idle, web, rls, resp));
    wait_until("all are closed", async || served.running.monitor().listener().counts().open == 0).await;
}
