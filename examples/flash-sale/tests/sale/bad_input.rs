//! Whatever is wrong is told, and nothing happens.

use std::process::Command;

use reqwest::{Client, Response};
use serde_json::{Value, json};
use sluicegate_flash_sale::house::{House, HouseSettings};

use crate::support::{Folder, house, open};

async fn problem(answer: Response) -> (u16, String, String) {
    let status = answer.status().as_u16();
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let document: Value = answer.json().await.unwrap();
    assert_eq!(document["status"], status);
    let text = |name: &str| document[name].as_str().unwrap().to_owned();
    (status, text("title"), text("detail"))
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_make_no_sense_are_told_so() {
    let folder = Folder::new();
    let house = open(house(folder.shop())).await;
    house.shop().restock(10).await.unwrap();
    // A connection on which too much was sent is closed: none is used twice.
    let client = Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
    let at = |path: &str| format!("http://{}{path}", house.addresses().shop);
    let alice = json!({ "buyer": "alice" });

    let posted = [
        ("/sale/other", alice.to_string(), 404, "no-step"),
        ("/sale/%ff", alice.to_string(), 400, "bad-path"),
        ("/orders/%ff/payment", String::new(), 400, "bad-path"),
        ("/sale/gateway", alice.to_string(), 404, "no-step"),
        ("/sale/plain", "{}".to_owned(), 400, "bad-body"),
        ("/sale/plain", "{".to_owned(), 400, "bad-body"),
        ("/sale/plain", "[".repeat(4_000), 400, "bad-body"),
        ("/sale/plain", json!({ "buyer": 7 }).to_string(), 400, "bad-body"),
        ("/sale/plain", json!({ "buyer": "alice", "item": 2 }).to_string(), 400, "bad-body"),
        ("/sale/plain", json!({ "buyer": "" }).to_string(), 400, "bad-name"),
        ("/sale/plain", json!({ "buyer": "a'; DROP TABLE flash_sale_orders; --" }).to_string(), 400, "bad-name"),
        ("/sale/plain", json!({ "buyer": "x".repeat(65) }).to_string(), 400, "bad-name"),
        ("/sale/plain", json!({ "buyer": "x".repeat(5_000) }).to_string(), 413, "too-large"),
        ("/orders/alice.once/payment", String::new(), 404, "no-order"),
        ("/orders/alice/payment", String::new(), 400, "bad-name"),
        ("/nowhere", String::new(), 404, "nothing-here"),
        ("/stock", String::new(), 405, "other-method"),
    ];
    for (path, body, status, title) in posted {
        let sent = client.post(at(path)).header("content-type", "application/json").body(body.clone()).send();
        let (got, named, detail) = problem(sent.await.unwrap()).await;
        assert_eq!((got, named.as_str()), (status, title), "{path} {body:.60}: {detail}");
    }
    // Whoever sends on and on may find the connection closed before the answer can be read.
    let huge = json!({ "buyer": "x".repeat(10_000_000) }).to_string();
    let huge = client.post(at("/sale/plain")).header("content-type", "application/json").body(huge).send().await;
    assert!(huge.is_err() || problem(huge.unwrap()).await.0 == 413);
    let plain = client.post(at("/sale/plain")).body(alice.to_string()).send().await.unwrap();
    assert_eq!(problem(plain).await.0, 415);
    let keyed = client.post(at("/sale/plain")).header("idempotency-key", "two words").json(&alice).send();
    assert_eq!(problem(keyed.await.unwrap()).await.1, "bad-name");
    let items = client.put(at("/stock")).json(&json!({ "items": 4_000_000_000_u32 })).send().await.unwrap();
    assert_eq!(problem(items).await.1, "too-many-items");
    let (status, _, detail) = problem(client.get(at("/orders/alice.once")).send().await.unwrap()).await;
    assert_eq!((status, detail.as_str()), (404, "there is no order alice.once"));

    let books = house.shop().books().await.unwrap();
    assert_eq!((books.items, books.left, books.sold), (10, 10, 0), "nothing has happened");
    house.close().await;
}

/// What a house says that cannot open.
async fn refused(change: impl FnOnce(&mut HouseSettings)) -> String {
    let folder = Folder::new();
    let mut settings = house(folder.shop());
    change(&mut settings);
    House::open(settings).await.err().expect("it cannot open").to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_are_not_there_are_named() {
    let error = refused(|settings| settings.shop.database = "postgres://h/d".to_owned()).await;
    assert!(error.contains("postgres://h/d") && error.contains("sqlite:FILE"), "{error}");
    let error = refused(|settings| settings.shop.database = "sqlite::memory:".to_owned()).await;
    assert!(error.contains("name a file"), "{error}");
    let error = refused(|settings| settings.shop.database = "mysql://u:secret@127.0.0.1:1/d".to_owned()).await;
    assert!(error.contains("mysql://u@127.0.0.1:1/d") && !error.contains("secret"), "{error}");
    let error = refused(|settings| settings.shop.database = "sqlite:/proc/no/sale.db".to_owned()).await;
    assert!(error.contains("the folder of the file cannot be made"), "{error}");
    let error = refused(|settings| settings.shop.cache = "memcached://h".to_owned()).await;
    assert!(error.contains("memcached://h") && error.contains("redis://"), "{error}");
    let error = refused(|settings| settings.shop.cache = "redis://127.0.0.1:1".to_owned()).await;
    assert!(error.contains("the stock cache"), "{error}");
    let error = refused(|settings| settings.shop.queue = "kafka://h".to_owned()).await;
    assert!(error.contains("kafka://h") && error.contains("amqp://"), "{error}");
    let error = refused(|settings| settings.shop.queue = "amqp://127.0.0.1:1/%2f".to_owned()).await;
    assert!(error.contains("RabbitMQ"), "{error}");
    let error = refused(|settings| settings.limits = "somewhere".to_owned()).await;
    assert!(error.contains("limits `somewhere`"), "{error}");
    let error = refused(|settings| settings.shop.pace = "fast".to_owned()).await;
    assert!(error.contains("the pace of the consumer"), "{error}");
    let error = refused(|settings| settings.rules = "rules: [{ name: total, limit: [10/s] }]".to_owned()).await;
    assert!(error.contains("did you mean `limits`?"), "{error}");
}

/// Two shops must not write one journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_has_one_owner() {
    let folder = Folder::new();
    let first = open(house(folder.shop())).await;
    let error = House::open(house(folder.shop())).await.err().expect("taken").to_string();
    assert!(error.contains("is in use by another process"), "{error}");
    first.close().await;
    open(house(folder.shop())).await.close().await;
}

#[test]
fn the_program_says_what_is_wrong_and_fails() {
    let program = || Command::new(env!("CARGO_BIN_EXE_sluicegate-flash-sale"));
    let output = program().args(["shop", "--listen", "127.0.0.1:0", "--database", "nonsense"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("sluicegate-flash-sale: database `nonsense`: write sqlite:FILE"), "{said}");
    for bad in [&["run", "--step", "other"][..], &["run", "--buyers", "0"], &["run", "--seconds", "-1"], &["sell"]] {
        assert_eq!(program().args(bad).output().unwrap().status.code(), Some(2), "{bad:?}");
    }
    let output = program().args(["drive", "--shop", "http://127.0.0.1:1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("is it running"));
}
