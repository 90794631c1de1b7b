//! Server errors are classified, and recoverable ones are recovered from.

use super::*;
use crate::StoreErrorKind;

fn kind(failure: CallError) -> Option<StoreErrorKind> {
    match failure {
        CallError::Store(error) => Some(error.kind),
        _ => None,
    }
}

#[test]
fn a_store_out_of_memory_is_not_called_until_it_recovers() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let first = client.submit(add("k", 1)).wait().unwrap_err();
    assert_eq!(kind(first), Some(StoreErrorKind::OutOfMemory));
    until("degraded", || client.submit(add("k", 1)).wait() == Err(CallError::Degraded));
    // A read-only probe would succeed.
    std::thread::sleep(Duration::from_millis(300));
    assert!(client.is_degraded());
    assert!(client.health().failures[&StoreErrorKind::OutOfMemory] >= 3, "{:?}", client.health());
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    until_reply(&client, "k");
}

#[test]
fn a_failing_script_does_not_open_the_breaker() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    server.command(&["SET", "k", "not a number"]).unwrap();
    for _ in 0..10 {
        assert_eq!(kind(client.submit(add("k", 1)).wait().unwrap_err()), Some(StoreErrorKind::Script));
    }
    assert!(!client.is_degraded());
    assert_eq!(client.submit(add("other", 1)).wait(), Ok(1));
}

#[test]
fn a_demoted_server_is_not_called_until_it_is_primary_again() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    server.command(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    assert!(client.submit(add("k", 1)).wait().is_err());
    assert!(client.is_degraded() && client.health().failures.contains_key(&StoreErrorKind::ReadOnly));
    server.command(&["REPLICAOF", "NO", "ONE"]).unwrap();
    until_reply(&client, "k");
}

#[test]
fn a_server_busy_with_a_script_is_survived() {
    let server = RedisServer::start_with(&["--busy-reply-threshold", "50"]).unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let port = server.port().to_string();
    let mut script = std::process::Command::new("redis-cli");
    script.args(["-p", &port, "EVAL", "while true do end", "0"]).stdout(std::process::Stdio::null());
    let mut script = script.spawn().unwrap();
    until("busy", || server.command(&["GET", "x"]).unwrap().starts_with("BUSY"));
    let failure = client.submit(add("k", 1)).wait().unwrap_err();
    assert!(matches!(kind(failure.clone()), Some(StoreErrorKind::Busy) | None), "{failure}");
    server.command(&["SCRIPT", "KILL"]).unwrap();
    script.wait().unwrap();
    until_reply(&client, "k");
}

#[test]
fn a_server_that_loads_its_data_is_waited_for() {
    // Slow enough to be observed, and responsive while loading.
    let slowly = ["--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024"];
    let mut server = RedisServer::start_with(&slowly).unwrap();
    let fill = "for i = 1, 4000 do redis.call('SET', 'filler' .. i, 'x') end";
    server.command(&["EVAL", fill, "0"]).unwrap();
    server.command(&["SAVE"]).unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    server.restart().unwrap();
    until("loading", || client.health().failures.contains_key(&StoreErrorKind::Loading));
    assert!(client.is_degraded());
    until_reply(&client, "k");
}

#[test]
fn an_evicting_maxmemory_policy_raises_a_warning() {
    let server = RedisServer::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let warnings = client.health().warnings;
    assert!(warnings.len() == 1 && warnings[0].contains("allkeys-lru"), "{warnings:?}");
    let server = RedisServer::start().unwrap();
    assert!(connected(single(server.address()), LONG_DEADLINE).health().warnings.is_empty());
}

#[test]
fn invalid_options_are_refused_at_startup() {
    let refused = |options: &StoreOptions| StoreClient::start(options, CounterBatch, vec![]).err().unwrap().to_string();
    let no_nodes = StoreOptions::new(Topology::Single, Vec::<String>::new());
    assert!(refused(&no_nodes).contains("no store nodes"));
    assert!(refused(&single("localhost")).contains("`localhost` is not host:port"));
    let mut cluster = StoreOptions::new(Topology::Cluster, ["127.0.0.1:1"]);
    cluster.database = 3;
    assert!(refused(&cluster).contains("no database 3"));
    let mut encrypted = single("127.0.0.1:1");
    encrypted.tls = Some(crate::Tls { authority: Some("/no/such/file".into()) });
    assert!(refused(&encrypted).contains("/no/such/file"));
}
