//! Redis servers can be stopped, crashed, encrypted, watched and clustered.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use sluicegate_testkit::servers::{RedisCluster, RedisServer, SentinelGroup};

/// Long enough for a busy machine.
const GUARD: Duration = Duration::from_secs(60);

fn is_running(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

/// `T` while it is stopped.
fn state(process: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_whitespace().next().unwrap().to_owned()
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < GUARD, "not {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_killed_server_starts_again_where_it_was_and_empty() {
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
fn a_paused_server_goes_on_and_one_that_stays_paused_is_stopped_too() {
    let server = RedisServer::start().unwrap();
    server.pause().unwrap();
    until("stopped", || state(server.process_id()) == "T");
    server.resume().unwrap();
    until("going on", || state(server.process_id()) != "T");
    assert_eq!(server.command(&["PING"]).unwrap(), "PONG");
    server.pause().unwrap();
    let process = server.process_id();
    drop(server);
    assert!(!is_running(process));
}

#[test]
fn a_server_with_a_password_and_tls_starts() {
    let server = RedisServer::start_with_tls(&["--requirepass", "secret"]).unwrap();
    let (port, authority) = server.tls().unwrap();
    assert_ne!(port, server.port());
    assert!(fs::read_to_string(authority).unwrap().contains("BEGIN CERTIFICATE"));
    assert!(server.command(&["PING"]).unwrap().starts_with("NOAUTH"));
}

#[test]
fn a_sentinel_fails_over() {
    let mut group = SentinelGroup::start().unwrap();
    let sentinel = group.process_id();
    assert!(group.address().starts_with("127.0.0.1:"));
    group.first_primary().kill();
    until("primary", || group.first_replica().command(&["ROLE"]).unwrap().starts_with("master"));
    drop(group);
    assert!(!is_running(sentinel));
}

#[test]
fn a_cluster_moves_a_slot_with_its_keys() {
    let mut cluster = RedisCluster::start().unwrap();
    assert_eq!(cluster.addresses().len(), 3);
    // `foo` stands in slot 12182, with the third.
    cluster.servers()[2].command(&["SET", "foo", "bar"]).unwrap();
    cluster.begin_move(12182, 2, 0).unwrap();
    assert!(cluster.servers()[2].command(&["GET", "{foo}other"]).unwrap().starts_with("ASK"));
    cluster.move_keys(12182, 2, 0).unwrap();
    cluster.end_move(12182, 2, 0).unwrap();
    assert_eq!(cluster.servers()[0].command(&["GET", "foo"]).unwrap(), "bar");
    assert!(cluster.servers()[2].command(&["GET", "foo"]).unwrap().starts_with("MOVED"));
}
