//! A store that is slow or silent costs an ask its deadline, then nothing.

use sluicegate_testkit::fault_proxy::FaultProxy;

use super::*;

/// The usual deadline.
const USUAL: Duration = Duration::from_millis(20);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_millis(500);

fn ask_for(driver: &Driver<Counting>, time: Duration) -> Vec<(Duration, Result<i64, Failure>)> {
    let begun = Instant::now();
    let mut answers = Vec::new();
    while begun.elapsed() < time {
        let asked = Instant::now();
        let answer = driver.ask(add("k", 1)).wait();
        answers.push((asked.elapsed(), answer));
        std::thread::sleep(Duration::from_millis(2));
    }
    answers
}

#[test]
fn a_stopped_store_costs_a_deadline_then_nothing_and_comes_back() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), USUAL);
    server.pause().unwrap();
    let answers = ask_for(&driver, Duration::from_secs(1));
    let longest = answers.iter().map(|(took, _)| *took).max().unwrap();
    assert!(longest < USUAL + SLACK, "{longest:?}");
    assert!(answers.iter().all(|(_, answer)| answer.is_err()));
    assert!(driver.now_degraded());
    let (refused, rest): (Vec<_>, Vec<_>) = answers.iter().partition(|(_, answer)| *answer == Err(Failure::Degraded));
    assert!(rest.len() < 10 && refused.len() > 20, "{} slow, {} refused", rest.len(), refused.len());
    let mut times: Vec<_> = refused.iter().map(|(took, _)| *took).collect();
    times.sort_unstable();
    let middle = times[times.len() / 2];
    eprintln!("stopped: slowest {longest:?}; refused: median {middle:?}");
    assert!(middle < Duration::from_millis(1), "{middle:?}");

    server.resume().unwrap();
    let (took, _) = until_answered(&driver, "k");
    eprintln!("back after {took:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert!(driver.health().breaker_openings > 0);
}

#[test]
fn under_light_load_a_single_silent_call_is_enough() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), USUAL);
    server.pause().unwrap();
    let begun = Instant::now();
    assert!(driver.ask(add("k", 1)).wait().is_err());
    until("degraded", || driver.now_degraded());
    let took = begun.elapsed();
    eprintln!("open after {took:?}");
    assert!(took < AMPLE && driver.health().timeouts <= 1, "{took:?}");
    server.resume().unwrap();
    until_answered(&driver, "k");
}

#[test]
fn without_asks_a_silent_store_is_noticed_too() {
    let server = RedisServer::start().unwrap();
    let driver = connected(single(server.address()), USUAL);
    server.pause().unwrap();
    let took = until("degraded", || driver.now_degraded());
    assert!(took < Duration::from_secs(4), "{took:?}");
    server.resume().unwrap();
    until("back", || !driver.now_degraded());
}

#[test]
fn a_slow_way_to_the_store_opens_the_breaker_and_what_came_late_is_given_back() {
    for delay in [25, 250] {
        let server = RedisServer::start().unwrap();
        let proxy = FaultProxy::start(server.port()).unwrap();
        let driver = connected(single(proxy.address()), USUAL);
        proxy.delay(Duration::from_millis(delay));
        let answers = ask_for(&driver, Duration::from_millis(400));
        // On a busy machine an answer may be there before anyone looks at the clock.
        let way = Duration::from_millis(2 * delay);
        assert!(answers.iter().all(|(took, answer)| answer.is_err() || *took >= way), "{answers:?}");
        let heard = answers.iter().filter(|(_, answer)| answer.is_ok()).count() as i64;
        until("degraded", || driver.now_degraded());
        // A probe that takes longer than a decision may does not close it.
        std::thread::sleep(Duration::from_millis(300));
        assert!(driver.now_degraded());
        until("given back", || driver.health().late_answers > 0 && stored(&server, "k") == heard);
        proxy.pass();
        let (took, _) = until_answered(&driver, "k");
        eprintln!("+{} ms: back after {took:?}", 2 * delay);
    }
}

#[test]
fn a_swallowed_connection_is_replaced() {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.port()).unwrap();
    let driver = connected(single(proxy.address()), USUAL);
    until_answered(&driver, "k");
    proxy.swallow();
    assert!(driver.ask(add("k", 1)).wait().is_err());
    until("degraded", || driver.now_degraded());
    // The old connection stays as it is: only a new one can pass.
    std::thread::sleep(Duration::from_millis(200));
    proxy.pass();
    let (took, _) = until_answered(&driver, "k");
    eprintln!("back after {took:?}");
    until("connected again", || driver.health().reconnects > 0);
}
