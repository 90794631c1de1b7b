//! Four processes on one threshold: never more than it allows in the whole fleet, and hardly less.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
#![allow(clippy::print_stderr, reason = "figures are what a run leaves behind")]

mod support;

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};
use sluicegate_engine::{Limit, Outcome, Rate};
use sluicegate_testkit::bound::Pace;
use sluicegate_testkit::history::{self, Call, Judge, Promise};
use sluicegate_testkit::servers::RedisServer;
use support::fleet::{Node, Orders, PERMIT_LIFE, SLOT, be_a_node, node_options};
use support::*;

/// One fleet at a time: what is measured is the limiter, not who gets the processor.
static TURN: Mutex<()> = Mutex::new(());

const SECOND: u64 = 1_000_000_000;

/// One node of the fleet; the tests below start it.
#[test]
#[ignore = "a node that tests start"]
fn node() {
    be_a_node();
}

fn cluster_rule(limit: Limit, mode: ClusterMode) -> Rule {
    let scope = Scope::Cluster { mode, on_store_failure: OnStoreFailure::Closed };
    Rule { scope, ..Rule::new("total", [limit]) }
}

struct Ran {
    decisions: u64,
    /// How many decisions began in which slot.
    demand: BTreeMap<u64, u64>,
    calls: Vec<Call<()>>,
}

/// Runs four nodes for so long and until they have made so many decisions.
fn run(server: &RedisServer, orders: &Orders, lasting: Duration, decisions: u64) -> Ran {
    run_while(server, orders, lasting, decisions, |_| {})
}

/// The same, and something happens to the nodes at the beginning.
fn run_while(
    server: &RedisServer,
    orders: &Orders,
    lasting: Duration,
    decisions: u64,
    happens: impl FnOnce(&[Node]),
) -> Ran {
    let mut nodes: Vec<Node> = (0..4).map(|number| Node::start(orders, number)).collect();
    eventually("all have begun", || nodes.iter().all(Node::is_ready));
    let begun = Instant::now();
    happens(&nodes);
    let made = |nodes: &[Node]| nodes.iter().map(Node::decisions).sum::<u64>();
    while begun.elapsed() < lasting || (made(&nodes) < decisions && begun.elapsed() < 6 * lasting) {
        thread::sleep(Duration::from_millis(20));
    }
    let took = begun.elapsed();
    nodes.iter_mut().for_each(Node::stop);
    let mut ran = Ran { decisions: 0, demand: BTreeMap::new(), calls: Vec::new() };
    let mut doubt = 0;
    for report in nodes.into_iter().map(Node::report) {
        assert_eq!(report.degraded, 0, "the store was there all the time");
        ran.decisions += report.decisions;
        ran.calls.extend(report.calls);
        report.demand.into_iter().for_each(|(slot, many)| *ran.demand.entry(slot).or_default() += many);
        doubt = doubt.max(report.doubt);
    }
    eprintln!("{orders:?}: {} decisions in {took:?}, moments known to {doubt} ns", ran.decisions);
    assert!(ran.decisions >= decisions, "{} decisions", ran.decisions);
    assert_eq!(keys_without_expiry(server), 0);
    ran
}

impl Ran {
    /// Proves that the promise was kept in every span, by the whole fleet together.
    fn prove(&self, promise: Promise) {
        match history::check(&self.calls, &promise, Judge::Proof) {
            Ok(summary) => eprintln!("{} admitted, none too many", summary.cost),
            Err(violation) => panic!("{violation}"),
        }
    }

    /// At least 98 % of what could be used was.
    fn judge_use(&self, rate: u64, burst: u64) {
        // The burst is spent in the first second.
        let used = self.pace(SECOND) / rate as f64;
        let used_of_asked = self.used_of_asked(rate, burst);
        eprintln!(
            "{:.2} % of the threshold was used, {:.2} % of what was asked of it",
            used * 100.0,
            used_of_asked * 100.0
        );
        assert!(used_of_asked >= 0.98, "{used_of_asked}");
    }

    /// What was admitted, measured by what one bucket for all would have admitted of the same demand: a machine
    /// that stands still for a while asks for nothing then.
    fn used_of_asked(&self, rate: u64, burst: u64) -> f64 {
        let most = u128::from(burst) * u128::from(SECOND);
        let (mut tokens, mut ideal, mut last) = (most, 0, None);
        for (slot, many) in &self.demand {
            let passed = u128::from(slot - last.replace(*slot).unwrap_or(*slot)) * u128::from(SLOT);
            tokens = most.min(tokens + passed * u128::from(rate));
            let taken = tokens.min(u128::from(*many) * u128::from(SECOND));
            tokens -= taken;
            ideal += taken;
        }
        let admitted: u64 = self.calls.iter().map(|call| call.cost).sum();
        admitted as f64 * SECOND as f64 / ideal as f64
    }

    /// What was admitted per second between the first `skip` and the last half second.
    fn pace(&self, skip: u64) -> f64 {
        let begin = self.calls.iter().map(|call| call.called_at).min().unwrap() + skip;
        let end = self.calls.iter().map(|call| call.returned_at).max().unwrap() - SECOND / 2;
        let inside = self.calls.iter().filter(|call| call.called_at >= begin && call.returned_at < end);
        inside.map(|call| call.cost).sum::<u64>() as f64 / ((end - begin) as f64 / SECOND as f64)
    }
}

/// Ten million decisions on one hot bucket, the load 70/20/8/2 and moving every half second.
#[test]
fn a_leased_bucket_is_used_up_and_never_overdrawn() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (rate, burst) = (100_000, 50_000);
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let orders =
        Orders { port, mode, limit: rate.to_string(), burst: Some(burst), load: 1_200_000, threads: 1, permits: 0 };
    let ran = run(&server, &orders, Duration::from_secs(9), 10_000_000);
    ran.prove(Promise::TokenBucket { pace: Pace::per_second(rate), burst });
    ran.judge_use(rate, burst);
    // The proof is no formality: of a bucket half as deep it finds that too much was admitted.
    let shallower = Promise::TokenBucket { pace: Pace::per_second(rate), burst: burst / 2 };
    assert!(history::check(&ran.calls, &shallower, Judge::Proof).is_err());
}

#[test]
fn an_exact_bucket_is_used_up_and_never_overdrawn() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (rate, burst) = (500, 200);
    let (port, mode) = (server.port(), ClusterMode::Exact);
    let orders =
        Orders { port, mode, limit: rate.to_string(), burst: Some(burst), load: 16_000, threads: 2, permits: 0 };
    let ran = run(&server, &orders, Duration::from_secs(3), 5_000);
    ran.prove(Promise::TokenBucket { pace: Pace::per_second(rate), burst });
    ran.judge_use(rate, burst);
}

/// The short form is a strict sliding window: a thousand in any second, wherever it begins.
#[test]
fn a_leased_window_is_never_overdrawn() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let orders = Orders { port, mode, limit: "1000/s".to_owned(), burst: None, load: 100_000, threads: 1, permits: 0 };
    let ran = run(&server, &orders, Duration::from_secs(3), 100_000);
    ran.prove(Promise::AnyWindow { limit: 1_000, window: SECOND });
    eprintln!("{:.0} a second were admitted", ran.pace(0));
}

#[test]
fn an_exact_window_is_never_overdrawn() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (port, mode) = (server.port(), ClusterMode::Exact);
    let orders = Orders { port, mode, limit: "1000/s".to_owned(), burst: None, load: 16_000, threads: 2, permits: 0 };
    let ran = run(&server, &orders, Duration::from_secs(3), 5_000);
    ran.prove(Promise::AnyWindow { limit: 1_000, window: SECOND });
    eprintln!("{:.0} a second were admitted", ran.pace(0));
}

/// A node that stood still for longer than its leases last spends nothing of them when it goes on.
#[test]
fn a_node_that_stood_still_overdraws_nothing() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (rate, burst) = (5_000, 2_500);
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let limit = rate.to_string();
    let orders = Orders { port, mode, limit, burst: Some(burst), load: 40_000, threads: 1, permits: 0 };
    let ran = run_while(&server, &orders, Duration::from_secs(4), 10_000, |nodes| {
        thread::sleep(Duration::from_millis(700));
        nodes[0].signal("STOP");
        thread::sleep(Duration::from_millis(2_500));
        nodes[0].signal("CONT");
    });
    ran.prove(Promise::TokenBucket { pace: Pace::per_second(rate), burst });
}

/// Permits of a node that was killed live no longer than they are renewed for.
#[test]
fn a_killed_node_frees_its_permits() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (port, mode) = (server.port(), ClusterMode::Exact);
    let orders = Orders { port, mode, limit: String::new(), burst: None, load: 1_000, threads: 1, permits: 3 };
    let mut node = Node::start(&orders, 0);
    eventually("the node holds them", || node.is_ready());
    let rule = cluster_rule(Limit::concurrency(3).unwrap(), ClusterMode::Exact);
    let other = Process::with(&node_options(server.address()), [rule]);
    let until = Instant::now() + PERMIT_LIFE + PERMIT_LIFE / 2;
    while Instant::now() < until {
        assert!(!other.sluice.decide(&get()).is_admitted(), "held, and renewed");
        thread::sleep(Duration::from_millis(20));
    }
    node.kill();
    let killed = Instant::now();
    let mut held = Vec::new();
    eventually("all are free", || {
        held.extend(Some(other.sluice.decide(&get())).filter(Outcome::is_admitted));
        held.len() == 3
    });
    eprintln!("free after {:?}", killed.elapsed());
    assert!(killed.elapsed() < PERMIT_LIFE + Duration::from_secs(2), "{:?}", killed.elapsed());
    assert!(!other.sluice.decide(&get()).is_admitted(), "three and no more");
    assert_eq!(keys_without_expiry(&server), 0);
}

/// What a killed node held on lease counts as spent when the lease ends, and the bucket fills up again.
#[test]
fn a_killed_node_frees_its_leases() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    // More comes in than it wants, so it always has a slice.
    let (rate, burst) = (100_000, 100_000);
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let limit = rate.to_string();
    let orders = Orders { port, mode, limit, burst: Some(burst), load: 40_000, threads: 1, permits: 0 };
    let mut node = Node::start(&orders, 0);
    eventually("the node has begun", || node.decisions() > 2_000);
    let rule = cluster_rule(Limit::token_bucket(Rate::per_second(rate).unwrap(), burst).unwrap(), mode);
    let other = Process::with(&node_options(server.address()), [rule]);
    let has_all = || other.sluice.decide(&get().with_cost(burst)).is_admitted();
    node.kill();
    let killed = Instant::now();
    assert!(!has_all(), "the node's part is the node's until its lease ends");
    eventually("all of it is there again", has_all);
    eprintln!("all there after {:?}", killed.elapsed());
    // The lease's two seconds, and one to fill up.
    assert!(killed.elapsed() < Duration::from_secs(3 + 3), "{:?}", killed.elapsed());
    assert_eq!(keys_without_expiry(&server), 0);
}
