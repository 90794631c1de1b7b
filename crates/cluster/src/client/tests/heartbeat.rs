//! Live processes that share a store are counted.

use super::*;

#[test]
fn live_processes_are_counted_and_exited_ones_are_not() {
    let server = RedisServer::start().unwrap();
    let one = connected(single(server.address()), LONG_DEADLINE);
    assert_eq!(one.live_nodes(), Some(1));
    let other = connected(single(server.address()), LONG_DEADLINE);
    assert_eq!(other.live_nodes(), Some(2));
    until("both nodes registered", || one.live_nodes() == Some(2));
    let expiry: i64 = server.command(&["PTTL", "sluicegate:{nodes}"]).unwrap().parse().unwrap();
    assert!(expiry > 0, "{expiry}");
    drop(other);
    until("one node left", || one.live_nodes() == Some(1));
    assert_eq!(one.health().live_nodes, Some(1));
}

#[test]
fn a_silent_process_expires_and_a_foreign_value_is_replaced() {
    let server = RedisServer::start().unwrap();
    server.command(&["ZADD", "sluicegate:{nodes}", "1", "long-gone"]).unwrap();
    server.command(&["ZADD", "sluicegate:{nodes}", "9e15", "of-the-future"]).unwrap();
    assert_eq!(connected(single(server.address()), LONG_DEADLINE).live_nodes(), Some(1));
    server.command(&["SET", "mine:{nodes}", "foreign"]).unwrap();
    let mut options = single(server.address());
    options.key_prefix = "mine:".into();
    assert_eq!(connected(options, LONG_DEADLINE).live_nodes(), Some(1));
}

#[test]
fn the_last_node_count_is_retained_while_the_store_is_unavailable() {
    let mut server = RedisServer::start().unwrap();
    let client = start(&single(server.address()));
    until("connected", || client.live_nodes() == Some(1));
    server.kill();
    until("degraded", || client.is_degraded());
    assert_eq!(client.live_nodes(), Some(1));
}
