//! The store loses data, runs out of memory, migrates slots, or holds foreign values, under load.
//!
//! Callers see none of it, and each data loss admits at most one extra burst.

use crate::support;

use std::task::Waker;
use std::thread::sleep;
use std::time::Duration;

use sluicegate_cluster::{StoreErrorKind, StoreOptions, StoreState, Topology};
use sluicegate_engine::clock::{Clock, SystemClock, TimerId};
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};
use sluicegate_engine::{Limit, Rate, Sluice, Timestamp};
use sluicegate_testkit::servers::{RedisCluster, RedisServer};
use support::load::{History, SteadyLoad};
use support::*;

/// Rate and burst of the bucket.
const RATE: u64 = 400;
const BURST: u64 = 100;
/// Pause between two faults.
const PAUSE: Duration = Duration::from_millis(300);

fn bucket(mode: ClusterMode, on_store_failure: OnStoreFailure) -> Rule {
    let bucket = Limit::token_bucket(Rate::per_second(RATE).unwrap(), BURST).unwrap();
    Rule { scope: Scope::Cluster { mode, on_store_failure }, ..Rule::new("total", [bucket]) }
}

/// The name of the bucket's key in the store.
fn key(server: &RedisServer) -> String {
    let mut found = String::new();
    eventually("the key exists", || {
        found = server.command(&["KEYS", "sluicegate:*:total:*"]).unwrap();
        !found.is_empty()
    });
    found.lines().next().unwrap().to_owned()
}

/// Two processes under load while a fault is injected into the store.
fn run_under_load(label: &str, server: &RedisServer, mode: ClusterMode, blow: impl FnOnce(&[Process; 2])) -> History {
    let processes = [0, 1].map(|_| Process::start(server, [bucket(mode, OnStoreFailure::Closed)]));
    let load = SteadyLoad::start(&[&processes[0], &processes[1]]);
    sleep(PAUSE);
    blow(&processes);
    sleep(PAUSE);
    let history = load.stop();
    let health = processes.each_ref().map(|process| process.store.health());
    eprintln!(
        "{label}: replaced {:?}, failures {:?}",
        health.each_ref().map(|it| it.replaced_values),
        health.map(|it| it.failures)
    );
    assert_eq!(keys_without_expiry(server), 0);
    history
}

fn flushed(label: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let history = run_under_load(label, &server, mode, |_| {
        for _ in 0..3 {
            flush(&server);
            sleep(PAUSE);
        }
    });
    history.assert_bucket_bound(label, RATE, 4 * BURST, |_| true);
    assert_eq!(history.count(|observed| observed.degraded), 0);
}

#[test]
fn flushed_exact() {
    flushed("flushed, exact", ClusterMode::Exact);
}

#[test]
fn flushed_leased() {
    flushed("flushed, leased", ClusterMode::Lease);
}

/// Flushed scripts are loaded again without any visible effect.
fn scripts_flushed(label: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let history = run_under_load(label, &server, mode, |_| {
        for _ in 0..20 {
            assert_eq!(server.command(&["SCRIPT", "FLUSH"]).unwrap(), "OK");
            sleep(PAUSE / 10);
        }
    });
    history.assert_bucket_bound(label, RATE, BURST, |_| true);
    assert_eq!(history.count(|observed| observed.degraded), 0);
}

#[test]
fn scripts_flushed_exact() {
    scripts_flushed("scripts flushed, exact", ClusterMode::Exact);
}

#[test]
fn scripts_flushed_leased() {
    scripts_flushed("scripts flushed, leased", ClusterMode::Lease);
}

/// A foreign value at our key is removed and counted.
fn overwritten(label: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let history = run_under_load(label, &server, mode, |processes| {
        let key = key(&server);
        let replaced_values = || processes.iter().map(|process| process.store.health().replaced_values).sum::<u64>();
        server.command(&["SET", &key, "hello"]).unwrap();
        eventually("a string is replaced", || replaced_values() == 1);
        server.command(&["RPUSH", "another", "a"]).unwrap();
        assert_eq!(server.command(&["RENAME", "another", &key]).unwrap(), "OK");
        eventually("a list is replaced", || replaced_values() == 2);
    });
    history.assert_bucket_bound(label, RATE, 3 * BURST, |_| true);
    assert_eq!(history.count(|observed| observed.degraded), 0);
}

#[test]
fn overwritten_exact() {
    overwritten("overwritten, exact", ClusterMode::Exact);
}

#[test]
fn overwritten_leased() {
    overwritten("overwritten, leased", ClusterMode::Lease);
}

/// Out of memory without eviction: the store refuses, the failure policy decides, and nothing is lost.
#[test]
fn out_of_memory() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]).unwrap();
    let rule = bucket(ClusterMode::Exact, OnStoreFailure::LocalShare);
    let [one, other] = [0, 1].map(|_| Process::start(&server, [rule.clone()]));
    let is_two = |process: &Process| process.store.health().live_nodes == Some(2);
    eventually("both nodes are counted", || is_two(&one) && is_two(&other));
    let load = SteadyLoad::start(&[&one, &other]);
    sleep(PAUSE);
    let maxmemory = |bytes: &str| server.command(&["CONFIG", "SET", "maxmemory", bytes]).unwrap();
    maxmemory("1");
    let is_degraded = |process: &Process| matches!(process.store.health().state, StoreState::Degraded { .. });
    eventually("noticed", || is_degraded(&one) && is_degraded(&other));
    sleep(2 * PAUSE);
    maxmemory("0");
    one.wait_until_connected();
    other.wait_until_connected();
    sleep(PAUSE);
    let history = load.stop();
    history.assert_bucket_bound("out of memory", RATE, BURST, |observed| !observed.degraded);
    for node in 0..2 {
        history.assert_bucket_bound("out of memory, share", RATE / 2, BURST / 2, |observed| {
            observed.degraded && observed.node == node
        });
    }
    assert!(history.count(|observed| observed.degraded) > 0);
    assert!(one.store.health().failures.contains_key(&StoreErrorKind::OutOfMemory));
    assert_eq!(keys_without_expiry(&server), 0);
}

/// An evicting store raises a warning at startup. Each evicted key costs one burst.
#[test]
fn evicted() {
    let server = RedisServer::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).unwrap();
    let evictions = || {
        let info = server.command(&["INFO", "stats"]).unwrap();
        info.lines().find_map(|line| line.strip_prefix("evicted_keys:")?.trim().parse::<u64>().ok()).unwrap()
    };
    let history = run_under_load("evicted", &server, ClusterMode::Exact, |[one, other]| {
        for process in [one, other] {
            let warnings = process.store.health().warnings;
            assert!(warnings.iter().any(|warning| warning.contains("allkeys-lru")), "{warnings:?}");
        }
        for _ in 0..3 {
            server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
            server.command(&["CONFIG", "SET", "maxmemory", "100mb"]).unwrap();
            sleep(PAUSE);
            one.wait_until_connected();
            other.wait_until_connected();
        }
    });
    let evicted = evictions();
    eprintln!("evicted: {evicted} keys");
    // The bucket itself at most three times: without memory it is not written again.
    assert!(evicted > 0);
    history.assert_bucket_bound("evicted", RATE, (1 + evicted.min(3)) * BURST, |_| true);
}

/// The system clock with an offset.
struct WrongClock(fn(Timestamp) -> Timestamp);

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        (self.0)(SystemClock.now())
    }

    fn schedule(&self, at: Timestamp, waker: Waker) -> TimerId {
        SystemClock.schedule(at, waker)
    }

    fn cancel(&self, id: TimerId) {
        SystemClock.cancel(id);
    }
}

/// Nodes with clocks two hours apart share a limit correctly.
fn skewed_clocks(label: &str, mode: ClusterMode) {
    const HOUR: Duration = Duration::from_secs(3_600);
    let server = RedisServer::start().unwrap();
    let clocks: [fn(Timestamp) -> Timestamp; 2] =
        [|now| now + HOUR, |now| Timestamp::from_nanos(now.as_nanos() - HOUR.as_nanos() as u64)];
    let [ahead, behind] = clocks.map(|clock| {
        let mut process = Process::start(&server, []);
        let rule = bucket(mode, OnStoreFailure::Closed);
        let builder = Sluice::builder().rule(rule).store(process.store.clone()).clock(WrongClock(clock));
        process.sluice = builder.memory(1 << 20).build().unwrap();
        process.store.share_with(&process.sluice);
        process
    });
    let load = SteadyLoad::start(&[&ahead, &behind]);
    sleep(5 * PAUSE);
    let history = load.stop();
    history.assert_bucket_bound(label, RATE, BURST, |_| true);
    assert_eq!(history.count(|observed| observed.degraded), 0);
    for node in 0..2 {
        assert!(history.count(|observed| observed.admitted && observed.node == node) > 0);
    }
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn skewed_clocks_exact() {
    skewed_clocks("skewed clocks, exact", ClusterMode::Exact);
}

#[test]
fn skewed_clocks_leased() {
    skewed_clocks("skewed clocks, leased", ClusterMode::Lease);
}

fn in_cluster(cluster: &RedisCluster, rules: impl IntoIterator<Item = Rule>) -> Process {
    let mut options = StoreOptions::new(Topology::Cluster, cluster.addresses());
    options.deadline = Duration::from_secs(5);
    Process::with(&options, rules)
}

/// A slot migrates through a Redis Cluster under load: nothing fails and nothing is lost.
fn migrated(label: &str, mode: ClusterMode) {
    let mut cluster = RedisCluster::start().unwrap();
    let [one, other] = [0, 1].map(|_| in_cluster(&cluster, [bucket(mode, OnStoreFailure::Closed)]));
    let load = SteadyLoad::start(&[&one, &other]);
    sleep(PAUSE);
    let mut found = None;
    eventually("the bucket exists on a server", || {
        let keys =
            cluster.servers().each_ref().map(|server| server.command(&["KEYS", "sluicegate:*:total:*"]).unwrap());
        found = keys.into_iter().enumerate().find(|(_, key)| !key.is_empty());
        found.is_some()
    });
    let (home, key) = found.unwrap();
    let slot = cluster.servers()[home].command(&["CLUSTER", "KEYSLOT", &key]).unwrap().parse().unwrap();
    for step in 0..3 {
        let (from, to) = ((home + step) % 3, (home + step + 1) % 3);
        cluster.begin_slot_migration(slot, from, to).unwrap();
        sleep(PAUSE / 3);
        cluster.migrate_keys(slot, from, to).unwrap();
        sleep(PAUSE / 3);
        cluster.finish_slot_migration(slot, from, to).unwrap();
        sleep(PAUSE / 3);
    }
    let history = load.stop();
    history.assert_bucket_bound(label, RATE, BURST, |_| true);
    assert_eq!(history.count(|observed| observed.degraded), 0);
    assert_eq!(keys_without_expiry(&cluster.servers()[home]), 0);
}

#[test]
fn migrated_exact() {
    migrated("migrated, exact", ClusterMode::Exact);
}

#[test]
fn migrated_leased() {
    migrated("migrated, leased", ClusterMode::Lease);
}

/// A hung server closes nothing and sends nothing. The new owner of its slots is found nevertheless.
#[test]
fn slots_of_a_hung_server_are_found_at_their_new_owner() {
    let mut cluster = RedisCluster::start().unwrap();
    let mut options = StoreOptions::new(Topology::Cluster, cluster.addresses());
    options.deadline = Duration::from_millis(100);
    let process = Process::with(&options, [with_policy(OnStoreFailure::Closed, local("total", "100000/1h"))]);
    let is_decided = || !process.sluice.decide(&get()).is_degraded();
    eventually("the store decides", is_decided);
    let servers = cluster.servers();
    let keys = servers.each_ref().map(|server| server.command(&["KEYS", "sluicegate:*:total:*"]).unwrap());
    let home = keys.iter().position(|key| !key.is_empty()).unwrap();
    let slot = servers[home].command(&["CLUSTER", "KEYSLOT", &keys[home]]).unwrap();
    servers[home].pause().unwrap();
    eventually("the failure is detected", || !is_decided());
    let [heir, witness] = [1, 2].map(|index| &servers[(home + index) % 3]);
    let id = heir.command(&["CLUSTER", "MYID"]).unwrap();
    for server in [heir, witness] {
        assert_eq!(server.command(&["CLUSTER", "SETSLOT", slot.trim(), "NODE", id.trim()]).unwrap().trim(), "OK");
    }
    eventually("the store decides again", is_decided);
    servers[home].resume().unwrap();
}

/// One of three servers hangs. Permits on the other two are still renewed and not granted again.
#[test]
fn a_hung_server_does_not_stop_renewals_on_the_others() {
    let mut cluster = RedisCluster::start().unwrap();
    let mut options = StoreOptions::new(Topology::Cluster, cluster.addresses());
    (options.deadline, options.permit_time_to_live) = (Duration::from_millis(200), Duration::from_millis(1_500));
    let one_each = Rule::new("one-each", [Limit::concurrency(1).unwrap()]);
    let rule = by_ip(with_policy(OnStoreFailure::Closed, one_each));
    let [holder, other] = [0, 1].map(|_| Process::with(&options, [rule.clone()]));
    let ips: Vec<String> = (0..30).map(|index| format!("10.0.0.{index}")).collect();
    let mut held = Vec::new();
    for ip in &ips {
        eventually("the permit is held", || {
            let outcome = holder.sluice.decide(&from(ip));
            let is_held = outcome.is_admitted() && !outcome.is_degraded();
            held.extend(is_held.then_some(outcome));
            is_held
        });
    }
    cluster.servers()[0].pause().unwrap();
    let start = std::time::Instant::now();
    // Twice the time to live of a permit.
    while start.elapsed() < 2 * options.permit_time_to_live {
        for ip in &ips {
            let outcome = other.sluice.decide(&from(ip));
            assert!(!outcome.is_admitted(), "{ip} is held twice, after {:?}", start.elapsed());
        }
    }
    cluster.servers()[0].resume().unwrap();
}

/// Rules with keys in different slots are taken in sequence, and undone on a refusal.
#[test]
fn all_or_nothing_across_slots() {
    let rules = [cluster("total", "10/1h"), by_ip(cluster("per-ip", "2/1h"))];
    let cluster = RedisCluster::start().unwrap();
    let process = in_cluster(&cluster, rules);
    let left = || {
        let outcome = process.sluice.decide(&from("10.0.9.9").with_cost(0));
        outcome.decisions().next().unwrap().1.decision.status.remaining
    };
    for index in 1..=5 {
        let ip = format!("10.0.0.{index}");
        let admitted = (0..4).filter(|_| process.sluice.decide(&from(&ip)).is_admitted()).count();
        assert_eq!(admitted, 2, "of {ip}");
        eventually("a refusal is refunded", || left() == 10 - 2 * index);
    }
    assert!(!process.sluice.decide(&from("10.0.0.6")).is_admitted());
}
