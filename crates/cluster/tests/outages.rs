//! The store dies, freezes, slows down, or cannot be reached, under load.
//!
//! However it fails: what the fleet admits keeps its bound, with one burst more where the store has lost what it
//! knew; every verdict is there by its deadline and says that it was made without the store; and when the store
//! is back, it is asked again within two seconds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
#![allow(clippy::print_stderr, reason = "figures are what a run leaves behind")]

mod support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use sluicegate_cluster::{State, StoreOptions, Topology};
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};
use sluicegate_engine::{Limit, Rate};
use sluicegate_testkit::fault_proxy::FaultProxy;
use sluicegate_testkit::servers::{RedisServer, SentinelGroup};
use support::load::{Load, Seen};
use support::*;

/// As fast and as deep as the bucket is.
const RATE: u64 = 400;
const BURST: u64 = 100;
/// How much longer than the deadline a verdict may take on a machine that does other things as well.
const SLACK: Duration = Duration::from_millis(1_000);
/// How long the store may take to be asked again once it is back: two seconds, and the same slack.
const BACK: Duration = Duration::from_millis(2_000 + 1_500);

fn bucket(mode: ClusterMode, on_store_failure: OnStoreFailure) -> Rule {
    let bucket = Limit::token_bucket(Rate::per_second(RATE).unwrap(), BURST).unwrap();
    Rule { scope: Scope::Cluster { mode, on_store_failure }, ..Rule::new("total", [bucket]) }
}

/// A process with the usual deadline.
fn process(address: String, rule: Rule) -> Process {
    Process::with(&StoreOptions::new(Topology::Single, [address]), [rule])
}

/// Waits until both know that they are two.
fn wait_until_two(processes: [&Process; 2]) {
    let knows = |process: &Process| process.store.health().live_nodes == Some(2);
    eventually("both are known", || processes.into_iter().all(knows));
}

fn is_degraded(process: &Process) -> bool {
    matches!(process.store.health().state, State::Degraded { .. })
}

fn by_store(seen: &Seen) -> bool {
    !seen.degraded
}

/// Waits until the process asks the store again, which it can from now on.
fn wait_until_back(what: &str, process: &Process) {
    let begun = Instant::now();
    process.wait_until_connected();
    eprintln!("{what}: back after {:?}", begun.elapsed());
    assert!(begun.elapsed() < BACK, "{:?}", begun.elapsed());
}

/// Killed with -9 and started again, empty.
fn killed(what: &str, mode: ClusterMode, policy: OnStoreFailure) {
    let mut server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| process(server.address(), bucket(mode, policy)));
    wait_until_two([&one, &other]);
    let load = Load::start(&[&one, &other]);
    sleep(Duration::from_millis(700));
    let killed = Instant::now();
    server.kill();
    eventually("noticed", || is_degraded(&one) && is_degraded(&other));
    sleep(Duration::from_millis(700));
    server.restart().unwrap();
    wait_until_back(what, &one);
    wait_until_back(what, &other);
    let back = Instant::now();
    // The store knows nobody any more; the processes still know that they are two, for five seconds.
    let counts = [&one, &other].map(|process| process.store.health().live_nodes);
    assert!(counts == [Some(2); 2] || killed.elapsed() > Duration::from_secs(3), "{counts:?}");
    sleep(Duration::from_millis(800));
    let history = load.stop();
    // What the store admitted, before and after: it has forgotten once.
    history.prove(what, RATE, 2 * BURST, by_store);
    let without = history.count(|seen| seen.degraded);
    let admitted = history.count(|seen| seen.degraded && seen.admitted);
    match policy {
        OnStoreFailure::Open => assert_eq!(admitted, without),
        OnStoreFailure::Closed => assert_eq!(admitted, 0),
        OnStoreFailure::LocalShare => {
            for node in 0..2 {
                history.prove(what, RATE / 2, BURST / 2, |seen| seen.degraded && seen.node == node);
            }
            assert!(admitted > 0);
        }
    }
    let counted: u64 = [&one, &other].iter().map(|process| process.sluice.counts()[0].degraded).sum();
    assert!(without > 0);
    assert_eq!(counted, without as u64, "each is counted");
    assert!(history.count(|seen| seen.called > back && seen.admitted && !seen.degraded) > 0);
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn killed_exact_closed() {
    killed("killed, exact, closed", ClusterMode::Exact, OnStoreFailure::Closed);
}

#[test]
fn killed_exact_open() {
    killed("killed, exact, open", ClusterMode::Exact, OnStoreFailure::Open);
}

#[test]
fn killed_leased_local_share() {
    killed("killed, leased, local share", ClusterMode::Lease, OnStoreFailure::LocalShare);
}

/// SIGSTOP for two seconds: connections stay open and nothing answers.
fn frozen(what: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| process(server.address(), bucket(mode, OnStoreFailure::LocalShare)));
    wait_until_two([&one, &other]);
    let load = Load::start(&[&one, &other]);
    sleep(Duration::from_millis(700));
    let stopped = Instant::now();
    server.pause().unwrap();
    eventually("noticed", || is_degraded(&one) && is_degraded(&other));
    let open = Instant::now();
    eprintln!("{what}: the breakers are open after {:?}", open - stopped);
    assert!(open - stopped < Duration::from_secs(1) + SLACK, "{:?}", open - stopped);
    sleep(Duration::from_secs(2).saturating_sub(stopped.elapsed()));
    server.resume().unwrap();
    let resumed = Instant::now();
    wait_until_back(what, &one);
    wait_until_back(what, &other);
    sleep(Duration::from_millis(700));
    let history = load.stop();
    // It has forgotten nothing.
    history.prove(what, RATE, BURST, by_store);
    for node in 0..2 {
        history.prove(what, RATE / 2, BURST / 2, |seen| seen.degraded && seen.node == node);
    }
    let (before, after) = (history.took(stopped, open), history.took(open, resumed));
    eprintln!("{what}: until the breakers opened {before:?}, then {after:?}");
    for took in [before, after] {
        assert!(took.longest < Duration::from_millis(20) + SLACK, "{took:?}");
    }
    let wrong = history.count(|seen| seen.called > open && seen.returned < resumed && !seen.degraded);
    if mode == ClusterMode::Exact {
        assert_eq!(wrong, 0, "nobody but the store can have decided");
    }
    assert!(history.count(|seen| seen.degraded) > 0);
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn frozen_exact() {
    frozen("frozen, exact", ClusterMode::Exact);
}

#[test]
fn frozen_leased() {
    frozen("frozen, leased", ClusterMode::Lease);
}

/// Who comes while the store is being asked for a lease, and is then asked for himself, waits no longer for it.
#[test]
fn a_leased_verdict_takes_one_deadline() {
    let server = RedisServer::start().unwrap();
    let mut options = StoreOptions::new(Topology::Single, [server.address()]);
    options.deadline = Duration::from_secs(2);
    let process = Process::with(&options, [bucket(ClusterMode::Lease, OnStoreFailure::Closed)]);
    server.pause().unwrap();
    let took = std::thread::scope(|scope| {
        scope.spawn(|| process.sluice.decide(&get()));
        sleep(Duration::from_secs(1));
        let begun = Instant::now();
        assert!(process.sluice.decide(&get()).is_degraded());
        begun.elapsed()
    });
    eprintln!("one deadline of two seconds: {took:?}");
    assert!(took < Duration::from_millis(2_800), "{took:?}");
}

/// Half the delay each way. Slower than a decision may take is as good as lost, and nothing is taken twice.
fn slow(what: &str, delay: Duration) {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.port()).unwrap();
    let one = process(proxy.address(), bucket(ClusterMode::Exact, OnStoreFailure::Closed));
    let load = Load::start(&[&one]);
    sleep(Duration::from_millis(500));
    proxy.delay(delay / 2);
    let slowed = Instant::now();
    eventually("noticed", || is_degraded(&one));
    sleep(Duration::from_millis(1_500));
    let quick = Instant::now();
    proxy.pass();
    wait_until_back(what, &one);
    sleep(Duration::from_millis(500));
    let history = load.stop();
    history.prove(what, RATE, BURST, |_| true);
    let took = history.took(slowed, quick);
    eprintln!("{what}: {took:?}");
    assert!(took.longest < Duration::from_millis(20) + SLACK, "{took:?}");
    assert!(history.count(|seen| seen.degraded) > 0);
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn slower_by_50_ms() {
    slow("50 ms slower", Duration::from_millis(50));
}

#[test]
fn slower_by_500_ms() {
    slow("500 ms slower", Duration::from_millis(500));
}

/// One of two cannot reach the store: it goes on with half the limit, and the other with what the store allows.
fn partitioned(what: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.port()).unwrap();
    let rule = || bucket(mode, OnStoreFailure::LocalShare);
    let (cut_off, other) = (process(proxy.address(), rule()), process(server.address(), rule()));
    wait_until_two([&cut_off, &other]);
    let load = Load::start(&[&cut_off, &other]);
    sleep(Duration::from_millis(500));
    proxy.swallow();
    eventually("noticed", || is_degraded(&cut_off));
    let lost = Instant::now();
    sleep(Duration::from_secs(2));
    assert!(is_degraded(&cut_off) && !is_degraded(&other));
    let healed = Instant::now();
    proxy.pass();
    wait_until_back(what, &cut_off);
    sleep(Duration::from_millis(500));
    let history = load.stop();
    history.prove(what, RATE, BURST, by_store);
    history.prove(what, RATE / 2, BURST / 2, |seen| seen.degraded && seen.node == 0);
    let share = history.count(|seen| seen.degraded && seen.admitted && seen.called > lost && seen.returned < healed);
    eprintln!("{what}: {share} admitted without the store in {:?}", healed - lost);
    assert!(share > 0);
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn partitioned_exact() {
    partitioned("partitioned, exact", ClusterMode::Exact);
}

#[test]
fn partitioned_leased() {
    partitioned("partitioned, leased", ClusterMode::Lease);
}

/// The primary dies and its replica takes over: at most what it had not copied is lost, one burst.
#[test]
fn failed_over() {
    let mut group = SentinelGroup::start().unwrap();
    let options = StoreOptions::new(Topology::Sentinel(SentinelGroup::NAME.into()), [group.address()]);
    let rule = bucket(ClusterMode::Exact, OnStoreFailure::LocalShare);
    let [one, other] = [0, 1].map(|_| Process::with(&options, [rule.clone()]));
    wait_until_two([&one, &other]);
    let load = Load::start(&[&one, &other]);
    sleep(Duration::from_millis(500));
    group.first_primary().kill();
    eventually("noticed", || is_degraded(&one) && is_degraded(&other));
    let noticed = Instant::now();
    one.wait_until_connected();
    other.wait_until_connected();
    let back = Instant::now();
    eprintln!("failed over: back after {:?}, of which the sentinel waits half a second", back - noticed);
    sleep(Duration::from_millis(700));
    let history = load.stop();
    history.prove("failed over", RATE, 2 * BURST, by_store);
    for node in 0..2 {
        history.prove("failed over, share", RATE / 2, BURST / 2, |seen| seen.degraded && seen.node == node);
    }
    assert!(history.count(|seen| seen.called > back && seen.admitted && !seen.degraded) > 0);
    assert_eq!(keys_without_expiry(group.first_replica()), 0);
}
