//! A process with rules in the store, started while the store is unavailable.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use sluicegate_testkit::fault_proxy::FaultProxy;
use sluicegate_testkit::servers::RedisServer;

use super::program::{Program, TEST_TIMEOUT, wait_until};
use super::{TOKEN, admin, started};

/// A process with this limit in its file, and a store at this port.
fn process(store: u16, limit: u32) -> Program {
    started(
        &format!(
            "admin: {{ listen: \"127.0.0.1:0\", token_file: tokens }}\nstore: {{ url: \"redis://127.0.0.1:{store}\", timeout: \
             5s }}\nrules_from: store\nrules: [{{ name: total, limits: [{limit}/1h] }}]\n"
        ),
        |_| {},
    )
}

fn get(program: &Program, path: &str) -> String {
    let mut client = TcpStream::connect(admin(program)).unwrap();
    client.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close");
    client.write_all(format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).unwrap();
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{response}");
    body.to_owned()
}

fn read(program: &Program, path: &str) -> Value {
    serde_json::from_str(&get(program, path)).unwrap()
}

/// Limit of the active rule.
fn limit(program: &Program) -> Value {
    read(program, "/v1/limits")["rules"][0]["limits"][0]["amount"].clone()
}

#[test]
fn uses_its_file_and_reports_it_until_the_store_returns() {
    let redis = RedisServer::start().unwrap();
    let first = process(redis.port(), 3);
    wait_until("the first has given the store its rules", || read(&first, "/v1/status")["rules"]["version"] == 1);

    let between = FaultProxy::start(redis.port()).unwrap();
    between.refuse();
    let second = process(between.port(), 7);
    wait_until("the error is reported", || !read(&second, "/v1/status")["rules"]["last_error"].is_null());
    let status = read(&second, "/v1/status");
    assert_eq!((&status["rules"]["version"], &status["rules"]["origin"]), (&json!(0), &json!("store")), "{status}");
    let message = status["rules"]["last_error"]["message"].as_str().unwrap();
    assert!(message.contains("using the rules of the file until the store is reachable"), "{message}");
    assert_ne!(status["store"]["state"], "up", "{status}");
    assert_eq!(limit(&second), 7);
    assert!(second.log().contains("using the rules of the file until the store is reachable"), "{}", second.log());
    let metrics = get(&second, "/metrics");
    for line in ["sluicegate_last_reload_successful 0", "sluicegate_store_up 0", "sluicegate_rules_version 0"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    // An unavailable store does not make the process unready.
    get(&second, "/readyz");

    between.pass();
    wait_until("the rules of the store are applied", || read(&second, "/v1/status")["rules"]["version"] == 1);
    assert_eq!((limit(&second), limit(&first)), (json!(3), json!(3)));
    let status = read(&second, "/v1/status");
    assert_eq!((&status["rules"]["last_error"], &status["store"]["state"]), (&json!(null), &json!("up")), "{status}");
    assert!(second.log().contains("rules updated (version: 1, author: start)"), "{}", second.log());
    assert!(get(&second, "/metrics").contains("sluicegate_last_reload_successful 1"));
}
