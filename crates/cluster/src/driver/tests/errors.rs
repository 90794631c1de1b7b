//! Errors of the server are told apart, and what can be mended is.

use super::*;
use crate::StoreErrorKind;

fn kind(failure: Failure) -> Option<StoreErrorKind> {
    match failure {
        Failure::Store(error) => Some(error.kind),
        _ => None,
    }
}

#[test]
fn a_store_without_memory_is_left_alone_until_it_has_some() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let first = driver.ask(add("k", 1)).wait().unwrap_err();
    assert_eq!(kind(first), Some(StoreErrorKind::OutOfMemory));
    until("degraded", || driver.ask(add("k", 1)).wait() == Err(Failure::Degraded));
    // A probe that only reads would pass.
    std::thread::sleep(Duration::from_millis(300));
    assert!(driver.now_degraded());
    assert!(driver.health().failures[&StoreErrorKind::OutOfMemory] >= 3, "{:?}", driver.health());
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    until_answered(&driver, "k");
}

#[test]
fn a_script_that_fails_is_not_the_stores_fault() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    server.command(&["SET", "k", "not a number"]).unwrap();
    for _ in 0..10 {
        assert_eq!(kind(driver.ask(add("k", 1)).wait().unwrap_err()), Some(StoreErrorKind::Script));
    }
    assert!(!driver.now_degraded());
    assert_eq!(driver.ask(add("other", 1)).wait(), Ok(1));
}

#[test]
fn a_server_that_became_a_replica_is_not_asked_until_it_is_primary_again() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    assert!(driver.ask(add("k", 1)).wait().is_err());
    assert!(driver.now_degraded() && driver.health().failures.contains_key(&StoreErrorKind::ReadOnly));
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    until_answered(&driver, "k");
}

#[test]
fn a_server_busy_with_a_script_is_survived() {
    let server = RedisServer::start_with(&["--busy-reply-threshold", "50"]).unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let port = server.port().to_string();
    let mut script = std::process::Command::new("redis-cli");
    script.args(["-p", &port, "EVAL", "while true do end", "0"]).stdout(std::process::Stdio::null());
    let mut script = script.spawn().unwrap();
    until("busy", || server.command(&["GET", "x"]).unwrap().starts_with("BUSY"));
    let failure = driver.ask(add("k", 1)).wait().unwrap_err();
    assert!(matches!(kind(failure.clone()), Some(StoreErrorKind::Busy) | None), "{failure}");
    server.command(&["SCRIPT", "KILL"]).unwrap();
    script.wait().unwrap();
    until_answered(&driver, "k");
}

#[test]
fn a_server_that_loads_its_data_is_waited_for() {
    // Slow enough to be met, and answering while it loads.
    let slowly = ["--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::start_with(&slowly).unwrap();
    let fill = "for i = 1, 4000 do redis.call('SET', 'filler' .. i, 'x') end";
    server.command(&["EVAL", fill, "0"]).unwrap();
    server.command(&["SAVE"]).unwrap();
    let driver = connected(single(server.address()), AMPLE);
    server.restart().unwrap();
    until("loading", || driver.health().failures.contains_key(&StoreErrorKind::Loading));
    assert!(driver.now_degraded());
    until_answered(&driver, "k");
}

#[test]
fn a_policy_that_evicts_is_warned_of() {
    let server = RedisServer::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let warnings = driver.health().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("allkeys-lru"), "{warnings:?}");
    let server = RedisServer::start().unwrap();
    assert!(connected(single(server.address()), AMPLE).health().warnings.is_empty());
}

#[test]
fn what_cannot_be_meant_is_refused_at_the_start() {
    let refused = |options: &StoreOptions| Driver::start(options, Counting, vec![]).err().unwrap().to_string();
    let nobody = StoreOptions::new(Topology::Single, Vec::<String>::new());
    assert!(refused(&nobody).contains("no nodes"));
    assert!(refused(&single("localhost")).contains("`localhost` is not host:port"));
    let mut cluster = StoreOptions::new(Topology::Cluster, ["127.0.0.1:1"]);
    cluster.database = 3;
    assert!(refused(&cluster).contains("no database 3"));
    let mut encrypted = single("127.0.0.1:1");
    encrypted.tls = Some(crate::Tls { authority: Some("/no/such/file".into()) });
    assert!(refused(&encrypted).contains("/no/such/file"));
}
