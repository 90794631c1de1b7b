//! The store dies, freezes, slows down, or becomes unreachable, under load.
//!
//! In every case: admissions of the cluster keep their bound, with one extra burst if the store has lost
//! data; every verdict arrives by its deadline and is marked as degraded; and after the store recovers,
//! it is used again within two seconds.

use crate::support;

use std::thread::sleep;
use std::time::{Duration, Instant};

use sluicegate_cluster::{StoreOptions, StoreState, Topology};
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};
use sluicegate_engine::{Limit, Rate};
use sluicegate_testkit::fault_proxy::FaultProxy;
use sluicegate_testkit::servers::{RedisServer, SentinelGroup};
use support::load::{ObservedDecision, SteadyLoad};
use support::*;

/// Rate and burst of the bucket.
const RATE: u64 = 400;
const BURST: u64 = 100;
/// Time past the deadline that a verdict may take on a busy machine.
const SLACK: Duration = Duration::from_millis(1_000);
/// Maximum time until a recovered store is used again: two seconds, plus slack.
const MAX_RECOVERY_TIME: Duration = Duration::from_millis(2_000 + 1_500);

fn bucket(mode: ClusterMode, on_store_failure: OnStoreFailure) -> Rule {
    let bucket = Limit::token_bucket(Rate::per_second(RATE).unwrap(), BURST).unwrap();
    Rule { scope: Scope::Cluster { mode, on_store_failure }, ..Rule::new("total", [bucket]) }
}

/// A process with the default deadline.
fn process(address: String, rule: Rule) -> Process {
    Process::with(&StoreOptions::new(Topology::Single, [address]), [rule])
}

/// Waits until both processes count two nodes.
fn wait_until_both_counted(processes: [&Process; 2]) {
    let sees_both = |process: &Process| process.store.health().live_nodes == Some(2);
    eventually("both nodes are counted", || processes.into_iter().all(sees_both));
}

fn is_degraded(process: &Process) -> bool {
    matches!(process.store.health().state, StoreState::Degraded { .. })
}

fn by_store(observed: &ObservedDecision) -> bool {
    !observed.degraded
}

/// Waits until the process uses the recovered store again.
fn wait_until_recovered(label: &str, process: &Process) {
    let start = Instant::now();
    process.wait_until_connected();
    eprintln!("{label}: recovered after {:?}", start.elapsed());
    assert!(start.elapsed() < MAX_RECOVERY_TIME, "{:?}", start.elapsed());
}

/// Killed with -9 and restarted empty.
fn killed(label: &str, mode: ClusterMode, policy: OnStoreFailure) {
    let mut server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| process(server.address(), bucket(mode, policy)));
    wait_until_both_counted([&one, &other]);
    let load = SteadyLoad::start(&[&one, &other]);
    sleep(Duration::from_millis(700));
    let killed = Instant::now();
    server.kill();
    eventually("noticed", || is_degraded(&one) && is_degraded(&other));
    sleep(Duration::from_millis(700));
    server.restart().unwrap();
    wait_until_recovered(label, &one);
    wait_until_recovered(label, &other);
    let back = Instant::now();
    // The store has lost the node set; the processes still count two nodes, for five seconds.
    let counts = [&one, &other].map(|process| process.store.health().live_nodes);
    assert!(counts == [Some(2); 2] || killed.elapsed() > Duration::from_secs(3), "{counts:?}");
    sleep(Duration::from_millis(800));
    let history = load.stop();
    // Admissions by the store before and after: it lost its data once.
    history.assert_bucket_bound(label, RATE, 2 * BURST, by_store);
    let without = history.count(|observed| observed.degraded);
    let admitted = history.count(|observed| observed.degraded && observed.admitted);
    match policy {
        OnStoreFailure::Open => assert_eq!(admitted, without),
        OnStoreFailure::Closed => assert_eq!(admitted, 0),
        OnStoreFailure::LocalShare => {
            for node in 0..2 {
                history.assert_bucket_bound(label, RATE / 2, BURST / 2, |observed| {
                    observed.degraded && observed.node == node
                });
            }
            assert!(admitted > 0);
        }
    }
    let counted: u64 = [&one, &other].iter().map(|process| process.sluice.counts()[0].degraded).sum();
    assert!(without > 0);
    assert_eq!(counted, without as u64, "each is counted");
    assert!(history.count(|observed| observed.called > back && observed.admitted && !observed.degraded) > 0);
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

/// SIGSTOP for two seconds: connections stay open without any reply.
fn frozen(label: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let [one, other] = [0, 1].map(|_| process(server.address(), bucket(mode, OnStoreFailure::LocalShare)));
    wait_until_both_counted([&one, &other]);
    let load = SteadyLoad::start(&[&one, &other]);
    sleep(Duration::from_millis(700));
    let stopped = Instant::now();
    server.pause().unwrap();
    eventually("noticed", || is_degraded(&one) && is_degraded(&other));
    let open = Instant::now();
    eprintln!("{label}: the breakers are open after {:?}", open - stopped);
    assert!(open - stopped < Duration::from_secs(1) + SLACK, "{:?}", open - stopped);
    sleep(Duration::from_secs(2).saturating_sub(stopped.elapsed()));
    server.resume().unwrap();
    let resumed = Instant::now();
    wait_until_recovered(label, &one);
    wait_until_recovered(label, &other);
    sleep(Duration::from_millis(700));
    let history = load.stop();
    // No data was lost.
    history.assert_bucket_bound(label, RATE, BURST, by_store);
    for node in 0..2 {
        history.assert_bucket_bound(label, RATE / 2, BURST / 2, |observed| observed.degraded && observed.node == node);
    }
    let (before, after) = (history.latency(stopped, open), history.latency(open, resumed));
    eprintln!("{label}: until the breakers opened {before:?}, then {after:?}");
    for elapsed in [before, after] {
        assert!(elapsed.max < Duration::from_millis(20) + SLACK, "{elapsed:?}");
    }
    let wrong = history.count(|observed| observed.called > open && observed.returned < resumed && !observed.degraded);
    if mode == ClusterMode::Exact {
        assert_eq!(wrong, 0, "only the store can have decided");
    }
    assert!(history.count(|observed| observed.degraded) > 0);
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

/// A caller that queues behind a lease request in flight, and then needs a request of its own, has one deadline.
#[test]
fn a_leased_verdict_takes_one_deadline() {
    let server = RedisServer::start().unwrap();
    let mut options = StoreOptions::new(Topology::Single, [server.address()]);
    options.deadline = Duration::from_secs(2);
    let process = Process::with(&options, [bucket(ClusterMode::Lease, OnStoreFailure::Closed)]);
    server.pause().unwrap();
    let elapsed = std::thread::scope(|scope| {
        scope.spawn(|| process.sluice.decide(&get()));
        sleep(Duration::from_secs(1));
        let start = Instant::now();
        assert!(process.sluice.decide(&get()).is_degraded());
        start.elapsed()
    });
    eprintln!("one deadline of two seconds: {elapsed:?}");
    assert!(elapsed < Duration::from_millis(2_800), "{elapsed:?}");
}

/// Half the delay each way. A reply slower than the deadline counts as lost, and nothing is taken twice.
fn slow(label: &str, delay: Duration) {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.port()).unwrap();
    let one = process(proxy.address(), bucket(ClusterMode::Exact, OnStoreFailure::Closed));
    let load = SteadyLoad::start(&[&one]);
    sleep(Duration::from_millis(500));
    proxy.delay(delay / 2);
    let slowed = Instant::now();
    eventually("noticed", || is_degraded(&one));
    sleep(Duration::from_millis(1_500));
    let quick = Instant::now();
    proxy.pass();
    wait_until_recovered(label, &one);
    sleep(Duration::from_millis(500));
    let history = load.stop();
    history.assert_bucket_bound(label, RATE, BURST, |_| true);
    let elapsed = history.latency(slowed, quick);
    eprintln!("{label}: {elapsed:?}");
    assert!(elapsed.max < Duration::from_millis(20) + SLACK, "{elapsed:?}");
    assert!(history.count(|observed| observed.degraded) > 0);
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

/// One of two processes cannot reach the store: it continues with half the limit, the other with the store.
fn partitioned(label: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let proxy = FaultProxy::start(server.port()).unwrap();
    let rule = || bucket(mode, OnStoreFailure::LocalShare);
    let (cut_off, other) = (process(proxy.address(), rule()), process(server.address(), rule()));
    wait_until_both_counted([&cut_off, &other]);
    let load = SteadyLoad::start(&[&cut_off, &other]);
    sleep(Duration::from_millis(500));
    proxy.blackhole();
    eventually("noticed", || is_degraded(&cut_off));
    let cut_at = Instant::now();
    sleep(Duration::from_secs(2));
    assert!(is_degraded(&cut_off) && !is_degraded(&other));
    let restored_at = Instant::now();
    proxy.pass();
    wait_until_recovered(label, &cut_off);
    sleep(Duration::from_millis(500));
    let history = load.stop();
    history.assert_bucket_bound(label, RATE, BURST, by_store);
    history.assert_bucket_bound(label, RATE / 2, BURST / 2, |observed| observed.degraded && observed.node == 0);
    let share = history.count(|observed| {
        observed.degraded && observed.admitted && observed.called > cut_at && observed.returned < restored_at
    });
    eprintln!("{label}: {share} admitted without the store in {:?}", restored_at - cut_at);
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

/// The primary dies and its replica takes over: at most the unreplicated part is lost, one burst.
#[test]
fn failed_over() {
    let mut group = SentinelGroup::start().unwrap();
    let options = StoreOptions::new(Topology::Sentinel(SentinelGroup::NAME.into()), [group.address()]);
    let rule = bucket(ClusterMode::Exact, OnStoreFailure::LocalShare);
    let [one, other] = [0, 1].map(|_| Process::with(&options, [rule.clone()]));
    wait_until_both_counted([&one, &other]);
    let load = SteadyLoad::start(&[&one, &other]);
    sleep(Duration::from_millis(500));
    group.first_primary().kill();
    eventually("noticed", || is_degraded(&one) && is_degraded(&other));
    let noticed = Instant::now();
    one.wait_until_connected();
    other.wait_until_connected();
    let back = Instant::now();
    eprintln!("failed over: recovered after {:?}, including the sentinel's wait of half a second", back - noticed);
    sleep(Duration::from_millis(700));
    let history = load.stop();
    history.assert_bucket_bound("failed over", RATE, 2 * BURST, by_store);
    for node in 0..2 {
        history.assert_bucket_bound("failed over, share", RATE / 2, BURST / 2, |observed| {
            observed.degraded && observed.node == node
        });
    }
    assert!(history.count(|observed| observed.called > back && observed.admitted && !observed.degraded) > 0);
    assert_eq!(keys_without_expiry(group.first_replica()), 0);
}
