//! Servers that die, come back empty, and forget.

use sluicegate_testkit::fault_proxy::FaultProxy;

use super::*;

#[test]
fn a_killed_server_is_noticed_at_once_and_found_again() {
    let mut server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    assert_eq!(driver.ask(add("k", 1)).wait(), Ok(1));
    server.kill();
    let took = until("degraded", || driver.now_degraded());
    eprintln!("noticed after {took:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    let begun = Instant::now();
    assert_eq!(driver.ask(add("k", 1)).wait(), Err(Failure::Degraded));
    assert!(begun.elapsed() < Duration::from_millis(500));
    let error = driver.health().last_error.unwrap();
    assert!(error.starts_with("the store cannot be reached: "), "{error}");

    // It comes back without our scripts, and without what was counted.
    server.restart().unwrap();
    let (took, answer) = until_answered(&driver, "k");
    eprintln!("back after {took:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(answer, 1);
    let health = driver.health();
    assert!(health.state == State::Connected && health.reconnects == 1, "{health:?}");
}

#[test]
fn the_driver_starts_without_the_store() {
    let mut server = RedisServer::start().unwrap();
    server.kill();
    let driver = start(&single(server.address()));
    until("degraded", || driver.now_degraded());
    assert_eq!(driver.ask(add("k", 1)).wait(), Err(Failure::Degraded));
    assert!(matches!(driver.health().state, State::Degraded { .. }));
    server.restart().unwrap();
    until_answered(&driver, "k");
}

#[test]
fn asks_made_before_the_first_connection_are_answered_over_it() {
    let server = RedisServer::start().unwrap();
    let mut options = single(server.address());
    options.deadline = AMPLE;
    let driver = start(&options);
    assert_eq!(driver.ask(add("k", 1)).wait(), Ok(1));
}

#[test]
fn cut_connections_are_made_again() {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.port()).unwrap();
    let driver = connected(single(proxy.address()), AMPLE);
    for _ in 0..5 {
        proxy.cut();
        until("noticed", || driver.now_degraded());
        until_answered(&driver, "k");
    }
    proxy.refuse();
    proxy.cut();
    until("noticed", || driver.now_degraded());
    proxy.pass();
    until_answered(&driver, "k");
}

#[test]
fn scripts_that_are_flushed_under_load_are_not_missed() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let load = Load::start(&driver, 8, |nth| format!("k{}", nth % 3));
    for _ in 0..20 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
    let (answers, failures) = load.stop();
    assert!(answers > 0 && failures.is_empty(), "{answers} answers, {failures:?}");
    let counted: i64 = (0..3).map(|nth| stored(&server, &format!("k{nth}"))).sum();
    assert_eq!(counted, answers as i64);
}

#[test]
fn a_server_that_dies_under_load_is_survived() {
    let mut server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), AMPLE);
    let load = Load::start(&driver, 8, |_| "k".to_owned());
    std::thread::sleep(Duration::from_millis(100));
    server.kill();
    until("degraded", || driver.now_degraded());
    server.restart().unwrap();
    until_answered(&driver, "k");
    let (answers, failures) = load.stop();
    assert!(answers > 0);
    let expected = |failure: &Failure| match failure {
        Failure::Degraded => true,
        Failure::Store(error) => error.kind == crate::StoreErrorKind::Unreachable,
        _ => false,
    };
    assert!(failures.iter().all(expected), "{failures:?}");
}
