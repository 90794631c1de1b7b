//! A slow or silent store costs a call its deadline, then nothing.

use sluicegate_testkit::fault_proxy::FaultProxy;

use super::*;

/// The default deadline.
const DEFAULT_DEADLINE: Duration = Duration::from_millis(20);
/// Allowance for a busy machine.
const SLACK: Duration = Duration::from_millis(500);

fn submit_for(client: &StoreClient<CounterBatch>, time: Duration) -> Vec<(Duration, Result<i64, CallError>)> {
    let start = Instant::now();
    let mut replies = Vec::new();
    while start.elapsed() < time {
        let sent = Instant::now();
        let reply = client.submit(add("k", 1)).wait();
        replies.push((sent.elapsed(), reply));
        std::thread::sleep(Duration::from_millis(2));
    }
    replies
}

#[test]
fn a_stopped_store_costs_one_timeout_then_nothing_and_recovers() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), DEFAULT_DEADLINE);
    server.pause().unwrap();
    let replies = submit_for(&client, Duration::from_secs(1));
    let max = replies.iter().map(|(elapsed, _)| *elapsed).max().unwrap();
    assert!(max < DEFAULT_DEADLINE + SLACK, "{max:?}");
    assert!(replies.iter().all(|(_, reply)| reply.is_err()));
    assert!(client.is_degraded());
    let (refused, rest): (Vec<_>, Vec<_>) = replies.iter().partition(|(_, reply)| *reply == Err(CallError::Degraded));
    assert!(rest.len() < 10 && refused.len() > 20, "{} slow, {} refused", rest.len(), refused.len());
    let mut times: Vec<_> = refused.iter().map(|(elapsed, _)| *elapsed).collect();
    times.sort_unstable();
    let middle = times[times.len() / 2];
    eprintln!("stopped: slowest {max:?}; refused: median {middle:?}");
    assert!(middle < Duration::from_millis(1), "{middle:?}");

    server.resume().unwrap();
    let (elapsed, _) = until_reply(&client, "k");
    eprintln!("recovered after {elapsed:?}");
    assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
    assert!(client.health().breaker_openings > 0);
}

#[test]
fn under_light_load_one_silent_call_opens_the_breaker() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), DEFAULT_DEADLINE);
    server.pause().unwrap();
    let start = Instant::now();
    assert!(client.submit(add("k", 1)).wait().is_err());
    until("degraded", || client.is_degraded());
    let elapsed = start.elapsed();
    eprintln!("open after {elapsed:?}");
    assert!(elapsed < LONG_DEADLINE && client.health().timeouts <= 1, "{elapsed:?}");
    server.resume().unwrap();
    until_reply(&client, "k");
}

#[test]
fn a_silent_store_is_detected_without_calls() {
    let server = RedisServer::start().unwrap();
    let client = connected(single(server.address()), DEFAULT_DEADLINE);
    server.pause().unwrap();
    let elapsed = until("degraded", || client.is_degraded());
    assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
    server.resume().unwrap();
    until("back", || !client.is_degraded());
}

#[test]
fn a_slow_network_opens_the_breaker_and_late_replies_are_undone() {
    for delay in [25, 250] {
        let server = RedisServer::start().unwrap();
        let proxy = FaultProxy::start(server.port()).unwrap();
        let client = connected(single(proxy.address()), DEFAULT_DEADLINE);
        proxy.delay(Duration::from_millis(delay));
        let replies = submit_for(&client, Duration::from_millis(400));
        // On a busy machine a reply may arrive before the timer is checked.
        let min_round_trip = Duration::from_millis(2 * delay);
        assert!(replies.iter().all(|(elapsed, reply)| reply.is_err() || *elapsed >= min_round_trip), "{replies:?}");
        let received = replies.iter().filter(|(_, reply)| reply.is_ok()).count() as i64;
        until("degraded", || client.is_degraded());
        // A probe slower than the decision deadline does not close the breaker.
        std::thread::sleep(Duration::from_millis(300));
        assert!(client.is_degraded());
        until("refunded", || client.health().late_replies > 0 && stored(&server, "k") == received);
        proxy.pass();
        let (elapsed, _) = until_reply(&client, "k");
        eprintln!("+{} ms: recovered after {elapsed:?}", 2 * delay);
    }
}

#[test]
fn a_black_holed_connection_is_replaced() {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.port()).unwrap();
    let client = connected(single(proxy.address()), DEFAULT_DEADLINE);
    until_reply(&client, "k");
    proxy.blackhole();
    assert!(client.submit(add("k", 1)).wait().is_err());
    until("degraded", || client.is_degraded());
    // The old connection stays black-holed: only a new one can succeed.
    std::thread::sleep(Duration::from_millis(200));
    proxy.pass();
    let (elapsed, _) = until_reply(&client, "k");
    eprintln!("recovered after {elapsed:?}");
    until("reconnected", || client.health().reconnects > 0);
}
