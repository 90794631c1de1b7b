//! Processes that share a store know how many they are.

use super::*;

#[test]
fn live_processes_are_counted_and_gone_ones_are_not() {
    let server = RedisServer::start().unwrap();
    let one = connected(single(server.address()), AMPLE);
    assert_eq!(one.live_nodes(), Some(1));
    let other = connected(single(server.address()), AMPLE);
    assert_eq!(other.live_nodes(), Some(2));
    until("both known", || one.live_nodes() == Some(2));
    let expiry: i64 = server.command(&["PTTL", "sluicegate:{nodes}"]).unwrap().parse().unwrap();
    assert!(expiry > 0, "{expiry}");
    drop(other);
    until("alone", || one.live_nodes() == Some(1));
    assert_eq!(one.health().live_nodes, Some(1));
}

#[test]
fn a_silent_process_is_forgotten_and_a_foreign_value_replaced() {
    let server = RedisServer::start().unwrap();
    server.command(&["ZADD", "sluicegate:{nodes}", "1", "long-gone"]).unwrap();
    server.command(&["ZADD", "sluicegate:{nodes}", "9e15", "of-the-future"]).unwrap();
    assert_eq!(connected(single(server.address()), AMPLE).live_nodes(), Some(1));
    server.command(&["SET", "mine:{nodes}", "foreign"]).unwrap();
    let mut options = single(server.address());
    options.key_prefix = "mine:".into();
    assert_eq!(connected(options, AMPLE).live_nodes(), Some(1));
}

#[test]
fn the_last_count_is_kept_while_the_store_is_lost() {
    let mut server = RedisServer::start().unwrap();
    let driver = start(&single(server.address()));
    until("connected", || driver.live_nodes() == Some(1));
    server.kill();
    until("degraded", || driver.now_degraded());
    assert_eq!(driver.live_nodes(), Some(1));
}
