//! A process whose rules live in the store, started while that is away.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};
use sluicegate_testkit::fault_proxy::FaultProxy;
use sluicegate_testkit::servers::RedisServer;

use crate::program::{GUARD, Program, until};
use crate::{TOKEN, admin, started};

/// A process whose file allows so many, with the store behind this port.
fn process(store: u16, limit: u32) -> Program {
    started(
        &format!(
            "admin: {{ listen: \"127.0.0.1:0\", token: tokens }}\nstore: {{ url: \"redis://127.0.0.1:{store}\", deadline: \
             5s }}\nrules_from: store\nrules: [{{ name: total, limits: [{limit}/1h] }}]\n"
        ),
        |_| {},
    )
}

fn get(program: &Program, path: &str) -> String {
    let mut client = TcpStream::connect(admin(program)).unwrap();
    client.set_read_timeout(Some(GUARD)).unwrap();
    let head = format!("Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close");
    client.write_all(format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    body.to_owned()
}

fn read(program: &Program, path: &str) -> Value {
    serde_json::from_str(&get(program, path)).unwrap()
}

/// How much the rule in force allows.
fn limit(program: &Program) -> Value {
    read(program, "/v1/limits")["rules"][0]["limits"][0]["amount"].clone()
}

#[test]
fn it_goes_by_its_file_and_says_so_until_the_store_is_back() {
    let redis = RedisServer::start().unwrap();
    let first = process(redis.port(), 3);
    until("the first has given the store its rules", || read(&first, "/v1/status")["rules"]["version"] == 1);

    let between = FaultProxy::start(redis.port()).unwrap();
    between.refuse();
    let late = process(between.port(), 7);
    until("it is told", || !read(&late, "/v1/status")["rules"]["last_error"].is_null());
    let status = read(&late, "/v1/status");
    assert_eq!((&status["rules"]["version"], &status["rules"]["origin"]), (&json!(0), &json!("store")), "{status}");
    let told = status["rules"]["last_error"]["message"].as_str().unwrap();
    assert!(told.contains("the rules of the file hold until then"), "{told}");
    assert_ne!(status["store"]["state"], "up", "{status}");
    assert_eq!(limit(&late), 7);
    assert!(late.log().contains("the rules of the file hold until then"), "{}", late.log());
    let metrics = get(&late, "/metrics");
    for line in ["sluicegate_last_reload_successful 0", "sluicegate_store_up 0", "sluicegate_rules_version 0"] {
        assert!(metrics.contains(line), "{metrics}");
    }
    // That it cannot be had is no reason to be taken out of service.
    get(&late, "/readyz");

    between.pass();
    until("it has the store's rules", || read(&late, "/v1/status")["rules"]["version"] == 1);
    assert_eq!((limit(&late), limit(&first)), (json!(3), json!(3)));
    let status = read(&late, "/v1/status");
    assert_eq!((&status["rules"]["last_error"], &status["store"]["state"]), (&json!(null), &json!("up")), "{status}");
    assert!(late.log().contains("other rules are in force (version: 1, author: start)"), "{}", late.log());
    assert!(get(&late, "/metrics").contains("sluicegate_last_reload_successful 1"));
}
