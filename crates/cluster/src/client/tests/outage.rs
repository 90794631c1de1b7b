//! Servers that die, come back empty, or lose their scripts.

use sluicegate_testkit::fault_proxy::FaultProxy;

use super::*;

#[test]
fn a_killed_server_is_noticed_at_once_and_found_again() {
    let mut server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    assert_eq!(client.submit(add("k", 1)).wait(), Ok(1));
    server.kill();
    let elapsed = until("degraded", || client.is_degraded());
    eprintln!("detected after {elapsed:?}");
    assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
    let start = Instant::now();
    assert_eq!(client.submit(add("k", 1)).wait(), Err(CallError::Degraded));
    assert!(start.elapsed() < Duration::from_millis(500));
    let error = client.health().last_error.unwrap();
    assert!(error.starts_with("the store cannot be reached: "), "{error}");

    // It comes back without scripts and without data.
    server.restart().unwrap();
    let (elapsed, reply) = until_reply(&client, "k");
    eprintln!("recovered after {elapsed:?}");
    assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
    assert_eq!(reply, 1);
    let health = client.health();
    assert!(health.state == StoreState::Connected && health.reconnects == 1, "{health:?}");
}

#[test]
fn the_client_starts_without_the_store() {
    let mut server = RedisServer::start().unwrap();
    server.kill();
    let client = start(&single(server.address()));
    until("degraded", || client.is_degraded());
    assert_eq!(client.submit(add("k", 1)).wait(), Err(CallError::Degraded));
    assert!(matches!(client.health().state, StoreState::Degraded { .. }));
    server.restart().unwrap();
    until_reply(&client, "k");
}

#[test]
fn calls_before_the_first_connection_complete_over_it() {
    let server = RedisServer::start().unwrap();
    let mut options = single(server.address());
    options.deadline = LONG_DEADLINE;
    let client = start(&options);
    assert_eq!(client.submit(add("k", 1)).wait(), Ok(1));
}

#[test]
fn cut_connections_are_reestablished() {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.port()).unwrap();
    let client = connected(single(proxy.address()), LONG_DEADLINE);
    for _ in 0..5 {
        proxy.disconnect_all();
        until("noticed", || client.is_degraded());
        until_reply(&client, "k");
    }
    proxy.refuse();
    proxy.disconnect_all();
    until("noticed", || client.is_degraded());
    proxy.pass();
    until_reply(&client, "k");
}

#[test]
fn scripts_flushed_under_load_are_reloaded() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let load = LoadThreads::start(&client, 8, |index| format!("k{}", index % 3));
    for _ in 0..20 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    let (replies, failures) = load.stop();
    assert!(replies > 0 && failures.is_empty(), "{replies} replies, {failures:?}");
    let counted: i64 = (0..3).map(|index| stored(&server, &format!("k{index}"))).sum();
    assert_eq!(counted, replies as i64);
}

#[test]
fn a_server_that_dies_under_load_is_survived() {
    let mut server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), LONG_DEADLINE);
    let load = LoadThreads::start(&client, 8, |_| "k".to_owned());
    std::thread::sleep(Duration::from_millis(100));
    server.kill();
    until("degraded", || client.is_degraded());
    server.restart().unwrap();
    until_reply(&client, "k");
    let (replies, failures) = load.stop();
    assert!(replies > 0);
    let expected = |failure: &CallError| match failure {
        CallError::Degraded => true,
        CallError::Store(error) => error.kind == crate::StoreErrorKind::Unreachable,
        _ => false,
    };
    assert!(failures.iter().all(expected), "{failures:?}");
}
