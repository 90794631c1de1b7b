//! Gateway and decision server of one rule file share one set of rules and counts.

use super::program::Program;
use super::support::http_client::TestHttpClient;
use super::support::resp::TestRespClient;
use super::support::temp_dir::TempDir;
use super::support::wait_until;

const RULES: &str = "
gateway:
  listen: 127.0.0.1:0
  threads: 1
  upstreams: { shop: builtin }
  routes: [{ path: \"/{*rest}\", upstream: shop }]
server: { http: 127.0.0.1:0, resp: 127.0.0.1:0, threads: 1 }
rules:
  - { name: orders, match: GET /orders, limits: [6/1h] }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateway_and_server_share_one_rule_count() {
    let mut program = Program::start(TempDir::new(), RULES).await;
    let mut gateway = TestHttpClient::connect(&program.gateway()).await.unwrap();
    let mut web = TestHttpClient::connect(&program.address("HTTP")).await.unwrap();
    let mut resp = TestRespClient::connect(&program.address("RESP")).await.unwrap();
    let check = r#"{"rule":"orders","method":"GET","path":"/orders"}"#;
    for round in 0..2 {
        assert_eq!(gateway.get("/orders").await.unwrap().status, 200);
        let reply = web.post("/v1/check", check).await.unwrap().json();
        assert_eq!(reply["limits"][0]["remaining"], 4 - 3 * round, "{reply}");
        let numbers = resp.call(&["SLUICE.CHECK", "orders"]).await.unwrap().integers();
        assert_eq!((numbers[0], numbers[2]), (1, 3 - 3 * round));
    }
    assert_eq!(gateway.get("/orders").await.unwrap().status, 429);
    assert_eq!(web.post("/v1/check", check).await.unwrap().json()["allowed"], false);
    assert_eq!(resp.call(&["SLUICE.CHECK", "orders"]).await.unwrap().integers()[0], 0);
    drop((gateway, web, resp));
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closed_connections_leak_no_file_descriptors() {
    let mut program = Program::start(TempDir::new(), RULES).await;
    let [http, resp] = ["HTTP", "RESP"].map(|protocol| program.address(protocol));
    TestHttpClient::connect(&http).await.unwrap().get("/healthz").await.unwrap();
    let before = program.open_files();
    for index in 0..200 {
        let mut web = TestHttpClient::connect(&http).await.unwrap();
        let mut client = TestRespClient::connect(&resp).await.unwrap();
        if index % 2 == 0 {
            web.get("/healthz").await.unwrap();
            client.call(&["PING"]).await.unwrap();
        }
    }
    wait_until("all files are closed", async || program.open_files() <= before).await;
    program.stop().await;
}
