//! Tests of the Redis fixtures: suspend, crash, TLS, Sentinel failover and slot migration.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::servers::{RedisCluster, RedisServer, SentinelGroup};

/// Test timeout, long enough for a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn is_running(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

/// Process state from `/proc`; `T` if it is stopped.
fn state(process: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().next().unwrap().to_owned()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < TEST_TIMEOUT, "timed out: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_server_restarts_on_its_port_and_empty() {
    let mut server = RedisServer::start().unwrap();
    server.command(&["SET", "k", "v"]).unwrap();
    let (process, port) = (server.process_id(), server.port());
    server.kill();
    assert!(!is_running(process) && TcpStream::connect(("127.0.0.1", port)).is_err());
    server.restart().unwrap();
    assert_eq!(server.port(), port);
    assert_eq!(server.command(&["GET", "k"]).unwrap(), "");
    assert_ne!(server.process_id(), process);
}

#[test]
fn a_paused_server_resumes_and_is_stopped_on_drop_while_paused() {
    let server = RedisServer::start().unwrap();
    server.pause().unwrap();
    wait_until("stopped", || state(server.process_id()) == "T");
    server.resume().unwrap();
    wait_until("running", || state(server.process_id()) != "T");
    assert_eq!(server.command(&["PING"]).unwrap(), "PONG");
    server.pause().unwrap();
    let process = server.process_id();
    drop(server);
    assert!(!is_running(process));
}

#[test]
fn a_server_with_a_password_and_tls_starts() {
    let server = RedisServer::start_with_tls(&["--requirepass", "secret"]).unwrap();
    let (port, ca) = server.tls().unwrap();
    assert_ne!(port, server.port());
    assert!(fs::read_to_string(ca).unwrap().contains("BEGIN CERTIFICATE"));
    assert!(server.command(&["PING"]).unwrap().starts_with("NOAUTH"));
}

#[test]
fn a_sentinel_fails_over() {
    let mut group = SentinelGroup::start().unwrap();
    let sentinel = group.process_id();
    assert!(group.address().starts_with("127.0.0.1:"));
    group.first_primary().kill();
    wait_until("primary", || group.first_replica().command(&["ROLE"]).unwrap().starts_with("master"));
    drop(group);
    assert!(!is_running(sentinel));
}

#[test]
fn a_cluster_moves_a_slot_with_its_keys() {
    let mut cluster = RedisCluster::start().unwrap();
    assert_eq!(cluster.addresses().len(), 3);
    // `foo` hashes to slot 12182, owned by the third node.
    cluster.servers()[2].command(&["SET", "foo", "bar"]).unwrap();
    cluster.begin_slot_migration(12182, 2, 0).unwrap();
    assert!(cluster.servers()[2].command(&["GET", "{foo}other"]).unwrap().starts_with("ASK"));
    cluster.migrate_keys(12182, 2, 0).unwrap();
    cluster.finish_slot_migration(12182, 2, 0).unwrap();
    assert_eq!(cluster.servers()[0].command(&["GET", "foo"]).unwrap(), "bar");
    assert!(cluster.servers()[2].command(&["GET", "foo"]).unwrap().starts_with("MOVED"));
}
