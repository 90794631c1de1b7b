//! Four processes on one threshold: the cluster never exceeds it, and uses nearly all of it.

use crate::support;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};
use sluicegate_engine::{Limit, Outcome, Rate};
use sluicegate_testkit::bound::ExactRate;
use sluicegate_testkit::history::{self, Call, CheckMode, Guarantee};
use sluicegate_testkit::servers::RedisServer;
use support::cluster::{Node, NodeConfig, PERMIT_TTL, SLOT_NANOS, node_options, run_node};
use support::*;

/// One cluster at a time: the tests measure the limiter, not CPU contention.
static SERIAL: Mutex<()> = Mutex::new(());

const SECOND: u64 = 1_000_000_000;

/// One node of the cluster; the tests below start it.
#[test]
#[ignore = "child process of the tests"]
fn node() {
    run_node();
}

fn cluster_rule(limit: Limit, mode: ClusterMode) -> Rule {
    let scope = Scope::Cluster { mode, on_store_failure: OnStoreFailure::Closed };
    Rule { scope, ..Rule::new("total", [limit]) }
}

struct ClusterRun {
    decisions: u64,
    /// Number of decisions begun per slot.
    demand: BTreeMap<u64, u64>,
    calls: Vec<Call<()>>,
}

/// Runs four nodes for at least this time and this many decisions.
fn run(server: &RedisServer, config: &NodeConfig, lasting: Duration, decisions: u64) -> ClusterRun {
    run_while(server, config, lasting, decisions, |_| {})
}

/// As `run`, with an action on the nodes at the beginning.
fn run_while(
    server: &RedisServer,
    config: &NodeConfig,
    lasting: Duration,
    decisions: u64,
    happens: impl FnOnce(&[Node]),
) -> ClusterRun {
    let mut nodes: Vec<Node> = (0..4).map(|number| Node::start(config, number)).collect();
    eventually("all nodes have started", || nodes.iter().all(Node::is_ready));
    let start = Instant::now();
    happens(&nodes);
    let decided = |nodes: &[Node]| nodes.iter().map(Node::decisions).sum::<u64>();
    while start.elapsed() < lasting || (decided(&nodes) < decisions && start.elapsed() < 6 * lasting) {
        thread::sleep(Duration::from_millis(20));
    }
    let elapsed = start.elapsed();
    nodes.iter_mut().for_each(Node::stop);
    let mut ran = ClusterRun { decisions: 0, demand: BTreeMap::new(), calls: Vec::new() };
    let mut doubt = 0;
    for report in nodes.into_iter().map(Node::report) {
        assert_eq!(report.degraded, 0, "the store was never unavailable");
        ran.decisions += report.decisions;
        ran.calls.extend(report.calls);
        report.demand.into_iter().for_each(|(slot, count)| *ran.demand.entry(slot).or_default() += count);
        doubt = doubt.max(report.uncertainty);
    }
    eprintln!("{config:?}: {} decisions in {elapsed:?}, times accurate to {doubt} ns", ran.decisions);
    assert!(ran.decisions >= decisions, "{} decisions", ran.decisions);
    assert_eq!(keys_without_expiry(server), 0);
    ran
}

impl ClusterRun {
    /// Proves that the whole cluster kept the promise in every span.
    fn assert_promise(&self, promise: Guarantee) {
        match history::check(&self.calls, &promise, CheckMode::Proof) {
            Ok(summary) => eprintln!("{} admitted, bound kept", summary.cost),
            Err(violation) => panic!("{violation}"),
        }
    }

    /// At least 98 % of the usable amount was used.
    fn assert_utilisation(&self, rate: u64, burst: u64) {
        // The burst is spent in the first second.
        let used = self.admitted_per_second(SECOND) / rate as f64;
        let utilisation = self.utilisation_of_demand(rate, burst);
        eprintln!("{:.2} % of the limit was used, {:.2} % of the demand", used * 100.0, utilisation * 100.0);
        assert!(utilisation >= 0.98, "{utilisation}");
    }

    /// The admitted amount relative to one shared bucket under the same demand: a machine
    /// that stalls has no demand meanwhile.
    fn utilisation_of_demand(&self, rate: u64, burst: u64) -> f64 {
        let max = u128::from(burst) * u128::from(SECOND);
        let (mut tokens, mut ideal, mut last) = (max, 0, None);
        for (slot, count) in &self.demand {
            let elapsed_nanos = u128::from(slot - last.replace(*slot).unwrap_or(*slot)) * u128::from(SLOT_NANOS);
            tokens = max.min(tokens + elapsed_nanos * u128::from(rate));
            let taken = tokens.min(u128::from(*count) * u128::from(SECOND));
            tokens -= taken;
            ideal += taken;
        }
        let admitted: u64 = self.calls.iter().map(|call| call.cost).sum();
        admitted as f64 * SECOND as f64 / ideal as f64
    }

    /// Admissions per second between the first `skip` and the last half second.
    fn admitted_per_second(&self, skip: u64) -> f64 {
        let begin = self.calls.iter().map(|call| call.called_at).min().unwrap() + skip;
        let end = self.calls.iter().map(|call| call.returned_at).max().unwrap() - SECOND / 2;
        let inside = self.calls.iter().filter(|call| call.called_at >= begin && call.returned_at < end);
        inside.map(|call| call.cost).sum::<u64>() as f64 / ((end - begin) as f64 / SECOND as f64)
    }
}

/// Ten million decisions on one hot bucket, with a load of 70/20/8/2 that rotates every half second.
#[test]
fn a_leased_bucket_is_fully_used_and_never_overdrawn() {
    let _turn = SERIAL.lock();
    let server = RedisServer::start().unwrap();
    let (rate, burst) = (100_000, 50_000);
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let config =
        NodeConfig { port, mode, limit: rate.to_string(), burst: Some(burst), load: 1_200_000, threads: 1, permits: 0 };
    let ran = run(&server, &config, Duration::from_secs(9), 10_000_000);
    ran.assert_promise(Guarantee::TokenBucket { rate: ExactRate::per_second(rate), burst });
    ran.assert_utilisation(rate, burst);
    // The proof is effective: for a bucket half as deep it finds a violation.
    let shallower = Guarantee::TokenBucket { rate: ExactRate::per_second(rate), burst: burst / 2 };
    assert!(history::check(&ran.calls, &shallower, CheckMode::Proof).is_err());
}

#[test]
fn an_exact_bucket_is_fully_used_and_never_overdrawn() {
    let _turn = SERIAL.lock();
    let server = RedisServer::start().unwrap();
    let (rate, burst) = (500, 200);
    let (port, mode) = (server.port(), ClusterMode::Exact);
    let config =
        NodeConfig { port, mode, limit: rate.to_string(), burst: Some(burst), load: 16_000, threads: 2, permits: 0 };
    let ran = run(&server, &config, Duration::from_secs(3), 5_000);
    ran.assert_promise(Guarantee::TokenBucket { rate: ExactRate::per_second(rate), burst });
    ran.assert_utilisation(rate, burst);
}

/// The short form is a strict sliding window: a thousand in any second.
#[test]
fn a_leased_window_is_never_overdrawn() {
    let _turn = SERIAL.lock();
    let server = RedisServer::start().unwrap();
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let config =
        NodeConfig { port, mode, limit: "1000/s".to_owned(), burst: None, load: 100_000, threads: 1, permits: 0 };
    let ran = run(&server, &config, Duration::from_secs(3), 100_000);
    ran.assert_promise(Guarantee::AnyWindow { limit: 1_000, window: SECOND });
    eprintln!("{:.0} per second were admitted", ran.admitted_per_second(0));
}

#[test]
fn an_exact_window_is_never_overdrawn() {
    let _turn = SERIAL.lock();
    let server = RedisServer::start().unwrap();
    let (port, mode) = (server.port(), ClusterMode::Exact);
    let config =
        NodeConfig { port, mode, limit: "1000/s".to_owned(), burst: None, load: 16_000, threads: 2, permits: 0 };
    let ran = run(&server, &config, Duration::from_secs(3), 5_000);
    ran.assert_promise(Guarantee::AnyWindow { limit: 1_000, window: SECOND });
    eprintln!("{:.0} per second were admitted", ran.admitted_per_second(0));
}

/// A node suspended for longer than its leases last spends nothing of them on resume.
#[test]
fn a_suspended_node_overdraws_nothing() {
    let _turn = SERIAL.lock();
    let server = RedisServer::start().unwrap();
    let (rate, burst) = (5_000, 2_500);
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let limit = rate.to_string();
    let config = NodeConfig { port, mode, limit, burst: Some(burst), load: 40_000, threads: 1, permits: 0 };
    let ran = run_while(&server, &config, Duration::from_secs(4), 10_000, |nodes| {
        thread::sleep(Duration::from_millis(700));
        nodes[0].signal("STOP");
        thread::sleep(Duration::from_millis(2_500));
        nodes[0].signal("CONT");
    });
    ran.assert_promise(Guarantee::TokenBucket { rate: ExactRate::per_second(rate), burst });
}

/// Permits of a killed node expire after their time to live.
#[test]
fn permits_of_a_killed_node_expire() {
    let _turn = SERIAL.lock();
    let server = RedisServer::start().unwrap();
    let (port, mode) = (server.port(), ClusterMode::Exact);
    let config = NodeConfig { port, mode, limit: String::new(), burst: None, load: 1_000, threads: 1, permits: 3 };
    let mut node = Node::start(&config, 0);
    eventually("the node holds the permits", || node.is_ready());
    let rule = cluster_rule(Limit::concurrency(3).unwrap(), ClusterMode::Exact);
    let other = Process::with(&node_options(server.address()), [rule]);
    let until = Instant::now() + PERMIT_TTL + PERMIT_TTL / 2;
    while Instant::now() < until {
        assert!(!other.sluice.decide(&get()).is_admitted(), "held and renewed");
        thread::sleep(Duration::from_millis(20));
    }
    node.kill();
    let killed = Instant::now();
    let mut held = Vec::new();
    eventually("all permits are free", || {
        held.extend(Some(other.sluice.decide(&get())).filter(Outcome::is_admitted));
        held.len() == 3
    });
    eprintln!("free after {:?}", killed.elapsed());
    assert!(killed.elapsed() < PERMIT_TTL + Duration::from_secs(2), "{:?}", killed.elapsed());
    assert!(!other.sluice.decide(&get()).is_admitted(), "exactly three");
    assert_eq!(keys_without_expiry(&server), 0);
}

/// Leased tokens of a killed node count as spent when the lease expires, and the bucket refills.
#[test]
fn leases_of_a_killed_node_expire() {
    let _turn = SERIAL.lock();
    let server = RedisServer::start().unwrap();
    // The rate exceeds its demand, so it always has a slice.
    let (rate, burst) = (100_000, 100_000);
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let limit = rate.to_string();
    let config = NodeConfig { port, mode, limit, burst: Some(burst), load: 40_000, threads: 1, permits: 0 };
    let mut node = Node::start(&config, 0);
    eventually("the node has started", || node.decisions() > 2_000);
    let rule = cluster_rule(Limit::token_bucket(Rate::per_second(rate).unwrap(), burst).unwrap(), mode);
    let other = Process::with(&node_options(server.address()), [rule]);
    let has_all = || other.sluice.decide(&get().with_cost(burst)).is_admitted();
    node.kill();
    let killed = Instant::now();
    assert!(!has_all(), "the node's slice stays reserved until its lease expires");
    eventually("the full limit is available again", has_all);
    eprintln!("fully available after {:?}", killed.elapsed());
    // Two seconds of lease, and one to refill.
    assert!(killed.elapsed() < Duration::from_secs(3 + 3), "{:?}", killed.elapsed());
    assert_eq!(keys_without_expiry(&server), 0);
}
