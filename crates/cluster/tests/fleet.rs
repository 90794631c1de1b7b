//! Four processes on one threshold: never more than it allows in the whole fleet, and hardly less.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

mod support;

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sluicegate_engine::rule::ClusterMode;
use sluicegate_testkit::bound::Pace;
use sluicegate_testkit::history::{self, Call, Judge, Promise};
use sluicegate_testkit::servers::RedisServer;
use support::fleet::{Node, Orders, be_a_node};
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

struct Ran {
    decisions: u64,
    calls: Vec<Call<()>>,
}

/// Runs four nodes for so long and until they have made so many decisions.
fn run(server: &RedisServer, orders: &Orders, lasting: Duration, decisions: u64) -> Ran {
    let mut nodes: Vec<Node> = (0..4).map(|number| Node::start(orders, number)).collect();
    eventually("all have begun", || nodes.iter().all(Node::is_ready));
    let begun = Instant::now();
    let made = |nodes: &[Node]| nodes.iter().map(Node::decisions).sum::<u64>();
    while begun.elapsed() < lasting || (made(&nodes) < decisions && begun.elapsed() < 6 * lasting) {
        thread::sleep(Duration::from_millis(20));
    }
    let took = begun.elapsed();
    nodes.iter_mut().for_each(Node::stop);
    let mut ran = Ran { decisions: 0, calls: Vec::new() };
    let mut doubt = 0;
    for report in nodes.into_iter().map(Node::report) {
        assert_eq!(report.degraded, 0, "the store was there all the time");
        ran.decisions += report.decisions;
        ran.calls.extend(report.calls);
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
    let orders = Orders { port, mode, limit: rate.to_string(), burst: Some(burst), load: 1_200_000, threads: 1 };
    let ran = run(&server, &orders, Duration::from_secs(9), 10_000_000);
    ran.prove(Promise::TokenBucket { pace: Pace::per_second(rate), burst });
    // The burst is spent in the first second.
    let used = ran.pace(SECOND) / rate as f64;
    eprintln!("{:.2} % of the threshold was used", used * 100.0);
    assert!(used >= 0.98, "{used}");
    // The proof is no formality: of a bucket a twentieth slower it finds that too much was admitted.
    let slower = Promise::TokenBucket { pace: Pace::per_second(rate / 20 * 19), burst };
    assert!(history::check(&ran.calls, &slower, Judge::Proof).is_err());
}

#[test]
fn an_exact_bucket_is_used_up_and_never_overdrawn() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (rate, burst) = (500, 200);
    let (port, mode) = (server.port(), ClusterMode::Exact);
    let orders = Orders { port, mode, limit: rate.to_string(), burst: Some(burst), load: 16_000, threads: 2 };
    let ran = run(&server, &orders, Duration::from_secs(4), 5_000);
    ran.prove(Promise::TokenBucket { pace: Pace::per_second(rate), burst });
    let used = ran.pace(SECOND) / rate as f64;
    eprintln!("{:.2} % of the threshold was used", used * 100.0);
    assert!(used >= 0.98, "{used}");
}

/// The short form is a strict sliding window: a thousand in any second, wherever it begins.
#[test]
fn a_leased_window_is_never_overdrawn() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (port, mode) = (server.port(), ClusterMode::Lease);
    let orders = Orders { port, mode, limit: "1000/s".to_owned(), burst: None, load: 100_000, threads: 1 };
    let ran = run(&server, &orders, Duration::from_secs(4), 100_000);
    ran.prove(Promise::AnyWindow { limit: 1_000, window: SECOND });
    eprintln!("{:.0} a second were admitted", ran.pace(0));
}

#[test]
fn an_exact_window_is_never_overdrawn() {
    let _turn = TURN.lock();
    let server = RedisServer::start().unwrap();
    let (port, mode) = (server.port(), ClusterMode::Exact);
    let orders = Orders { port, mode, limit: "1000/s".to_owned(), burst: None, load: 16_000, threads: 2 };
    let ran = run(&server, &orders, Duration::from_secs(3), 5_000);
    ran.prove(Promise::AnyWindow { limit: 1_000, window: SECOND });
    eprintln!("{:.0} a second were admitted", ran.pace(0));
}
