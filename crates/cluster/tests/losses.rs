//! The store forgets, fills up, moves, or holds what is not ours, under load.
//!
//! Nothing of it is passed up to callers, and each loss of what was counted costs one burst at most.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
#![allow(clippy::print_stderr, reason = "figures are what a run leaves behind")]

mod support;

use std::task::Waker;
use std::thread::sleep;
use std::time::Duration;

use sluicegate_cluster::{State, StoreErrorKind, StoreOptions, Topology};
use sluicegate_engine::clock::{AlarmId, Clock, SystemClock};
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};
use sluicegate_engine::{Limit, Rate, Sluice, Timestamp};
use sluicegate_testkit::servers::{RedisCluster, RedisServer};
use support::load::{History, Load};
use support::*;

/// As fast and as deep as the bucket is.
const RATE: u64 = 400;
const BURST: u64 = 100;
/// Between two blows.
const PAUSE: Duration = Duration::from_millis(300);

fn bucket(mode: ClusterMode, on_store_failure: OnStoreFailure) -> Rule {
    let bucket = Limit::token_bucket(Rate::per_second(RATE).unwrap(), BURST).unwrap();
    Rule { scope: Scope::Cluster { mode, on_store_failure }, ..Rule::new("total", [bucket]) }
}

/// The name of the bucket's key in the store.
fn key(server: &RedisServer) -> String {
    let mut found = String::new();
    eventually("the key is there", || {
        found = server.command(&["KEYS", "sluicegate:*:total:*"]).unwrap();
        !found.is_empty()
    });
    found.lines().next().unwrap().to_owned()
}

/// Two processes ask while something happens to the store.
fn under_load(what: &str, server: &RedisServer, mode: ClusterMode, blow: impl FnOnce(&[Process; 2])) -> History {
    let processes = [0, 1].map(|_| Process::start(server, [bucket(mode, OnStoreFailure::Closed)]));
    let load = Load::start(&[&processes[0], &processes[1]]);
    sleep(PAUSE);
    blow(&processes);
    sleep(PAUSE);
    let history = load.stop();
    let health = processes.each_ref().map(|process| process.store.health());
    eprintln!(
        "{what}: healed {:?}, failures {:?}",
        health.each_ref().map(|it| it.healed),
        health.map(|it| it.failures)
    );
    assert_eq!(keys_without_expiry(server), 0);
    history
}

fn flushed(what: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let history = under_load(what, &server, mode, |_| {
        for _ in 0..3 {
            flush(&server);
            sleep(PAUSE);
        }
    });
    history.prove(what, RATE, 4 * BURST, |_| true);
    assert_eq!(history.count(|seen| seen.degraded), 0);
}

#[test]
fn flushed_exact() {
    flushed("flushed, exact", ClusterMode::Exact);
}

#[test]
fn flushed_leased() {
    flushed("flushed, leased", ClusterMode::Lease);
}

/// Scripts that are gone are sent again; nobody notices.
fn scripts_flushed(what: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let history = under_load(what, &server, mode, |_| {
        for _ in 0..20 {
            assert_eq!(server.command(&["SCRIPT", "FLUSH"]).unwrap(), "OK");
            sleep(PAUSE / 10);
        }
    });
    history.prove(what, RATE, BURST, |_| true);
    assert_eq!(history.count(|seen| seen.degraded), 0);
}

#[test]
fn scripts_flushed_exact() {
    scripts_flushed("scripts flushed, exact", ClusterMode::Exact);
}

#[test]
fn scripts_flushed_leased() {
    scripts_flushed("scripts flushed, leased", ClusterMode::Lease);
}

/// What somebody else puts in the place of our key is removed and counted.
fn overwritten(what: &str, mode: ClusterMode) {
    let server = RedisServer::start().unwrap();
    let history = under_load(what, &server, mode, |processes| {
        let key = key(&server);
        let healed = || processes.iter().map(|process| process.store.health().healed).sum::<u64>();
        server.command(&["SET", &key, "hello"]).unwrap();
        eventually("a text is healed", || healed() == 1);
        server.command(&["RPUSH", "another", "a"]).unwrap();
        assert_eq!(server.command(&["RENAME", "another", &key]).unwrap(), "OK");
        eventually("a list is healed", || healed() == 2);
    });
    history.prove(what, RATE, 3 * BURST, |_| true);
    assert_eq!(history.count(|seen| seen.degraded), 0);
}

#[test]
fn overwritten_exact() {
    overwritten("overwritten, exact", ClusterMode::Exact);
}

#[test]
fn overwritten_leased() {
    overwritten("overwritten, leased", ClusterMode::Lease);
}

/// No memory, and nothing may be dropped: the store refuses, the policy decides, and nothing is lost.
#[test]
fn out_of_memory() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]).unwrap();
    let rule = bucket(ClusterMode::Exact, OnStoreFailure::LocalShare);
    let [one, other] = [0, 1].map(|_| Process::start(&server, [rule.clone()]));
    let is_two = |process: &Process| process.store.health().live_nodes == Some(2);
    eventually("both are known", || is_two(&one) && is_two(&other));
    let load = Load::start(&[&one, &other]);
    sleep(PAUSE);
    let maxmemory = |bytes: &str| server.command(&["CONFIG", "SET", "maxmemory", bytes]).unwrap();
    maxmemory("1");
    let is_degraded = |process: &Process| matches!(process.store.health().state, State::Degraded { .. });
    eventually("noticed", || is_degraded(&one) && is_degraded(&other));
    sleep(2 * PAUSE);
    maxmemory("0");
    one.wait_until_connected();
    other.wait_until_connected();
    sleep(PAUSE);
    let history = load.stop();
    history.prove("out of memory", RATE, BURST, |seen| !seen.degraded);
    for node in 0..2 {
        history.prove("out of memory, share", RATE / 2, BURST / 2, |seen| seen.degraded && seen.node == node);
    }
    assert!(history.count(|seen| seen.degraded) > 0);
    assert!(one.store.health().failures.contains_key(&StoreErrorKind::OutOfMemory));
    assert_eq!(keys_without_expiry(&server), 0);
}

/// A store that drops keys is warned of at the start. Each key it drops costs one burst.
#[test]
fn evicted() {
    let server = RedisServer::start_with(&["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"]).unwrap();
    let evictions = || {
        let info = server.command(&["INFO", "stats"]).unwrap();
        info.lines().find_map(|line| line.strip_prefix("evicted_keys:")?.trim().parse::<u64>().ok()).unwrap()
    };
    let history = under_load("evicted", &server, ClusterMode::Exact, |[one, other]| {
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
    let lost = evictions();
    eprintln!("evicted: {lost} keys");
    // The bucket itself three times at most: without memory it is not written again.
    assert!(lost > 0);
    history.prove("evicted", RATE, (1 + lost.min(3)) * BURST, |_| true);
}

/// The machine's clock, as far off as somebody has set it.
struct WrongClock(fn(Timestamp) -> Timestamp);

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        (self.0)(SystemClock.now())
    }

    fn set_alarm(&self, at: Timestamp, waker: Waker) -> AlarmId {
        SystemClock.set_alarm(at, waker)
    }

    fn cancel_alarm(&self, id: AlarmId) {
        SystemClock.cancel_alarm(id);
    }
}

/// Nodes whose clocks are two hours apart share a limit as if they were not.
fn clocks_apart(what: &str, mode: ClusterMode) {
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
    let load = Load::start(&[&ahead, &behind]);
    sleep(5 * PAUSE);
    let history = load.stop();
    history.prove(what, RATE, BURST, |_| true);
    assert_eq!(history.count(|seen| seen.degraded), 0);
    for node in 0..2 {
        assert!(history.count(|seen| seen.admitted && seen.node == node) > 0);
    }
    assert_eq!(keys_without_expiry(&server), 0);
}

#[test]
fn clocks_apart_exact() {
    clocks_apart("clocks apart, exact", ClusterMode::Exact);
}

#[test]
fn clocks_apart_leased() {
    clocks_apart("clocks apart, leased", ClusterMode::Lease);
}

fn in_cluster(cluster: &RedisCluster, rules: impl IntoIterator<Item = Rule>) -> Process {
    let mut options = StoreOptions::new(Topology::Cluster, cluster.addresses());
    options.deadline = Duration::from_secs(5);
    Process::with(&options, rules)
}

/// A slot goes round a Redis Cluster while its key is asked for: nothing fails and nothing is lost.
fn moved(what: &str, mode: ClusterMode) {
    let mut cluster = RedisCluster::start().unwrap();
    let [one, other] = [0, 1].map(|_| in_cluster(&cluster, [bucket(mode, OnStoreFailure::Closed)]));
    let load = Load::start(&[&one, &other]);
    sleep(PAUSE);
    let mut found = None;
    eventually("the bucket is somewhere", || {
        let keys =
            cluster.servers().each_ref().map(|server| server.command(&["KEYS", "sluicegate:*:total:*"]).unwrap());
        found = keys.into_iter().enumerate().find(|(_, key)| !key.is_empty());
        found.is_some()
    });
    let (home, key) = found.unwrap();
    let slot = cluster.servers()[home].command(&["CLUSTER", "KEYSLOT", &key]).unwrap().parse().unwrap();
    for step in 0..3 {
        let (from, to) = ((home + step) % 3, (home + step + 1) % 3);
        cluster.begin_move(slot, from, to).unwrap();
        sleep(PAUSE / 3);
        cluster.move_keys(slot, from, to).unwrap();
        sleep(PAUSE / 3);
        cluster.end_move(slot, from, to).unwrap();
        sleep(PAUSE / 3);
    }
    let history = load.stop();
    history.prove(what, RATE, BURST, |_| true);
    assert_eq!(history.count(|seen| seen.degraded), 0);
    assert_eq!(keys_without_expiry(&cluster.servers()[home]), 0);
}

#[test]
fn moved_exact() {
    moved("moved, exact", ClusterMode::Exact);
}

#[test]
fn moved_leased() {
    moved("moved, leased", ClusterMode::Lease);
}

/// A server that hangs closes nothing and says nothing. Whoever owns its slots by then is found all the same.
#[test]
fn slots_of_a_server_that_hangs_are_found_where_they_went() {
    let mut cluster = RedisCluster::start().unwrap();
    let mut options = StoreOptions::new(Topology::Cluster, cluster.addresses());
    options.deadline = Duration::from_millis(100);
    let process = Process::with(&options, [with_policy(OnStoreFailure::Closed, local("total", "100000/1h"))]);
    let is_decided = || !process.sluice.decide(&get()).is_degraded();
    eventually("it is decided", is_decided);
    let servers = cluster.servers();
    let keys = servers.each_ref().map(|server| server.command(&["KEYS", "sluicegate:*:total:*"]).unwrap());
    let home = keys.iter().position(|key| !key.is_empty()).unwrap();
    let slot = servers[home].command(&["CLUSTER", "KEYSLOT", &keys[home]]).unwrap();
    servers[home].pause().unwrap();
    eventually("it is noticed", || !is_decided());
    let [heir, witness] = [1, 2].map(|nth| &servers[(home + nth) % 3]);
    let id = heir.command(&["CLUSTER", "MYID"]).unwrap();
    for server in [heir, witness] {
        assert_eq!(server.command(&["CLUSTER", "SETSLOT", slot.trim(), "NODE", id.trim()]).unwrap().trim(), "OK");
    }
    eventually("it is decided again", is_decided);
    servers[home].resume().unwrap();
}

/// One server of three hangs. Permits that the other two keep are renewed, and nobody else gets them.
#[test]
fn permits_elsewhere_outlast_a_server_that_hangs() {
    let mut cluster = RedisCluster::start().unwrap();
    let mut options = StoreOptions::new(Topology::Cluster, cluster.addresses());
    (options.deadline, options.permit_time_to_live) = (Duration::from_millis(200), Duration::from_millis(1_500));
    let one_each = Rule::new("one-each", [Limit::concurrency(1).unwrap()]);
    let rule = by_ip(with_policy(OnStoreFailure::Closed, one_each));
    let [holder, other] = [0, 1].map(|_| Process::with(&options, [rule.clone()]));
    let ips: Vec<String> = (0..30).map(|nth| format!("10.0.0.{nth}")).collect();
    let mut held = Vec::new();
    for ip in &ips {
        eventually("it is held", || {
            let outcome = holder.sluice.decide(&from(ip));
            let is_held = outcome.is_admitted() && !outcome.is_degraded();
            held.extend(is_held.then_some(outcome));
            is_held
        });
    }
    cluster.servers()[0].pause().unwrap();
    let begun = std::time::Instant::now();
    // Two lives of a permit.
    while begun.elapsed() < 2 * options.permit_time_to_live {
        for ip in &ips {
            let outcome = other.sluice.decide(&from(ip));
            assert!(!outcome.is_admitted(), "{ip} is held twice, after {:?}", begun.elapsed());
        }
    }
    cluster.servers()[0].resume().unwrap();
}

/// Rules whose keys stand in different slots are taken in order, and what was taken goes back.
#[test]
fn all_or_nothing_across_slots() {
    let rules = [cluster("total", "10/1h"), by_ip(cluster("per-ip", "2/1h"))];
    let cluster = RedisCluster::start().unwrap();
    let process = in_cluster(&cluster, rules);
    let left = || {
        let outcome = process.sluice.decide(&from("10.0.9.9").with_cost(0));
        outcome.decisions().next().unwrap().1.decision.status.remaining
    };
    for nth in 1..=5 {
        let ip = format!("10.0.0.{nth}");
        let admitted = (0..4).filter(|_| process.sluice.decide(&from(&ip)).is_admitted()).count();
        assert_eq!(admitted, 2, "of {ip}");
        eventually("what was refused is given back", || left() == 10 - 2 * nth);
    }
    assert!(!process.sluice.decide(&from("10.0.0.6")).is_admitted());
}
