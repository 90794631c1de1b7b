//! Invalid requests and settings are reported and have no effect.

use std::process::Command;

use reqwest::{Client, Response};
use serde_json::{Value, json};
use sluicegate_flash_sale::app::{App, AppSettings};

use crate::support::{TempDir, app_settings, open_app};

async fn problem(response: Response) -> (u16, String, String) {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    let document: Value = response.json().await.unwrap();
    assert_eq!(document["status"], status);
    let text = |name: &str| document[name].as_str().unwrap().to_owned();
    (status, text("title"), text("detail"))
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_get_problem_documents() {
    let dir = TempDir::new();
    let app = open_app(app_settings(dir.shop())).await;
    app.shop().restock(10).await.unwrap();
    // The server closes a connection after a body that is too large: do not reuse connections.
    let client = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    let at = |path: &str| format!("http://{}{path}", app.addresses().shop);
    let alice = json!({ "buyer": "alice" });

    let posted = [
        ("/sale/other", alice.to_string(), 404, "unknown-step"),
        ("/sale/%ff", alice.to_string(), 400, "invalid-path"),
        ("/orders/%ff/payment", String::new(), 400, "invalid-path"),
        ("/sale/gateway", alice.to_string(), 404, "unknown-step"),
        ("/sale/plain", "{}".to_owned(), 400, "invalid-body"),
        ("/sale/plain", "{".to_owned(), 400, "invalid-body"),
        ("/sale/plain", "[".repeat(4_000), 400, "invalid-body"),
        ("/sale/plain", json!({ "buyer": 7 }).to_string(), 400, "invalid-body"),
        ("/sale/plain", json!({ "buyer": "alice", "item": 2 }).to_string(), 400, "invalid-body"),
        ("/sale/plain", json!({ "buyer": "" }).to_string(), 400, "invalid-name"),
        ("/sale/plain", json!({ "buyer": "a'; DROP TABLE flash_sale_orders; --" }).to_string(), 400, "invalid-name"),
        ("/sale/plain", json!({ "buyer": "x".repeat(65) }).to_string(), 400, "invalid-name"),
        ("/sale/plain", json!({ "buyer": "x".repeat(5_000) }).to_string(), 413, "too-large"),
        ("/orders/alice.once/payment", String::new(), 404, "unknown-order"),
        ("/orders/alice/payment", String::new(), 400, "invalid-name"),
        ("/nowhere", String::new(), 404, "not-found"),
        ("/stock", String::new(), 405, "method-not-allowed"),
    ];
    for (path, body, status, title) in posted {
        let sent = client.post(at(path)).header("content-type", "application/json").body(body.clone()).send();
        let (actual_status, actual_title, detail) = problem(sent.await.unwrap()).await;
        assert_eq!((actual_status, actual_title.as_str()), (status, title), "{path} {body:.60}: {detail}");
    }
    // The connection may be closed before a client that is still sending can read the response.
    let huge = json!({ "buyer": "x".repeat(10_000_000) }).to_string();
    let huge = client.post(at("/sale/plain")).header("content-type", "application/json").body(huge).send().await;
    assert!(huge.is_err() || problem(huge.unwrap()).await.0 == 413);
    let plain = client.post(at("/sale/plain")).body(alice.to_string()).send().await.unwrap();
    assert_eq!(problem(plain).await.0, 415);
    let keyed = client.post(at("/sale/plain")).header("idempotency-key", "two words").json(&alice).send();
    assert_eq!(problem(keyed.await.unwrap()).await.1, "invalid-name");
    let items = client.put(at("/stock")).json(&json!({ "items": 4_000_000_000_u32 })).send().await.unwrap();
    assert_eq!(problem(items).await.1, "too-many-items");
    let (status, _, detail) = problem(client.get(at("/orders/alice.once")).send().await.unwrap()).await;
    assert_eq!((status, detail.as_str()), (404, "unknown order alice.once"));

    let totals = app.shop().totals().await.unwrap();
    assert_eq!((totals.items, totals.left, totals.sold), (10, 10, 0), "invalid requests have no effect");
    app.close().await;
}

/// Error of an application with changed settings.
async fn open_error(change: impl FnOnce(&mut AppSettings)) -> String {
    let dir = TempDir::new();
    let mut settings = app_settings(dir.shop());
    change(&mut settings);
    App::open(settings).await.err().expect("open fails").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_backends_are_named() {
    let error = open_error(|settings| settings.shop.database = "postgres://h/d".to_owned()).await;
    assert!(error.contains("postgres://h/d") && error.contains("sqlite:FILE"), "{error}");
    let error = open_error(|settings| settings.shop.database = "sqlite::memory:".to_owned()).await;
    assert!(error.contains("use a file"), "{error}");
    let error = open_error(|settings| settings.shop.database = "mysql://u:secret@127.0.0.1:1/d".to_owned()).await;
    assert!(error.contains("mysql://u@127.0.0.1:1/d") && !error.contains("secret"), "{error}");
    let error = open_error(|settings| settings.shop.database = "sqlite:/proc/no/sale.db".to_owned()).await;
    assert!(error.contains("cannot create the directory of the file"), "{error}");
    let error = open_error(|settings| settings.shop.cache = "memcached://h".to_owned()).await;
    assert!(error.contains("memcached://h") && error.contains("redis://"), "{error}");
    let error = open_error(|settings| settings.shop.cache = "redis://127.0.0.1:1".to_owned()).await;
    assert!(error.contains("stock cache"), "{error}");
    let error = open_error(|settings| settings.shop.queue = "kafka://h".to_owned()).await;
    assert!(error.contains("kafka://h") && error.contains("amqp://"), "{error}");
    let error = open_error(|settings| settings.shop.queue = "amqp://127.0.0.1:1/%2f".to_owned()).await;
    assert!(error.contains("RabbitMQ"), "{error}");
    let error = open_error(|settings| settings.limits = "somewhere".to_owned()).await;
    assert!(error.contains("limits `somewhere`"), "{error}");
    let error = open_error(|settings| settings.shop.consumer_rate = "fast".to_owned()).await;
    assert!(error.contains("consumer rate"), "{error}");
    let error = open_error(|settings| settings.rules = "rules: [{ name: total, limit: [10/s] }]".to_owned()).await;
    assert!(error.contains("did you mean `limits`?"), "{error}");
}

/// Two shops must not share a journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_has_one_owner() {
    let dir = TempDir::new();
    let first = open_app(app_settings(dir.shop())).await;
    let error = App::open(app_settings(dir.shop())).await.err().expect("the journal is in use").to_string();
    assert!(error.contains("is in use by another process"), "{error}");
    first.close().await;
    open_app(app_settings(dir.shop())).await.close().await;
}

#[test]
fn the_program_reports_the_error_and_fails() {
    let program = || Command::new(env!("CARGO_BIN_EXE_sluicegate-flash-sale"));
    let output = program().args(["shop", "--listen", "127.0.0.1:0", "--database", "nonsense"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("sluicegate-flash-sale: database `nonsense`: write sqlite:FILE"), "{stderr}");
    for bad in [&["run", "--step", "other"][..], &["run", "--buyers", "0"], &["run", "--seconds", "-1"], &["sell"]] {
        assert_eq!(program().args(bad).output().unwrap().status.code(), Some(2), "{bad:?}");
    }
    let output = program().args(["drive", "--shop", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("check that it is running"));
}
