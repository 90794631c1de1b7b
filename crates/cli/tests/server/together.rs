//! Gateway and decision server of one rule file: one set of rules, one count.

use crate::program::Program;
use crate::support::folder::Folder;
use crate::support::resp::Resp;
use crate::support::until;
use crate::support::web::Web;

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
async fn one_rule_is_spent_by_gateway_and_server() {
    let mut program = Program::start(Folder::new(), RULES).await;
    let mut gateway = Web::to(&program.gateway()).await.unwrap();
    let mut web = Web::to(&program.place("HTTP")).await.unwrap();
    let mut resp = Resp::to(&program.place("RESP")).await.unwrap();
    let check = r#"{"rule":"orders","method":"GET","path":"/orders"}"#;
    for round in 0..2 {
        assert_eq!(gateway.get("/orders").await.unwrap().status, 200);
        let said = web.post("/v1/check", check).await.unwrap().json();
        assert_eq!(said["limits"][0]["remaining"], 4 - 3 * round, "{said}");
        let said = resp.ask(&["SLUICE.CHECK", "orders"]).await.unwrap().numbers();
        assert_eq!((said[0], said[2]), (1, 3 - 3 * round));
    }
    assert_eq!(gateway.get("/orders").await.unwrap().status, 429);
    assert_eq!(web.post("/v1/check", check).await.unwrap().json()["allowed"], false);
    assert_eq!(resp.ask(&["SLUICE.CHECK", "orders"]).await.unwrap().numbers()[0], 0);
    drop((gateway, web, resp));
    program.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_came_and_went_leave_no_files_open() {
    let mut program = Program::start(Folder::new(), RULES).await;
    let [http, resp] = ["HTTP", "RESP"].map(|protocol| program.place(protocol));
    Web::to(&http).await.unwrap().get("/healthz").await.unwrap();
    let before = program.files();
    for nth in 0..200 {
        let mut web = Web::to(&http).await.unwrap();
        let mut client = Resp::to(&resp).await.unwrap();
        if nth % 2 == 0 {
            web.get("/healthz").await.unwrap();
            client.ask(&["PING"]).await.unwrap();
        }
    }
    until("all files are closed", async || program.files() <= before).await;
    program.stop().await;
}
