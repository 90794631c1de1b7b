//! Cluster node: a store client and a sluice with one cluster-wide token bucket.

use std::io::{self, BufRead, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use sluicegate::cluster::{ClusterStore, StoreOptions, StoreState, Topology};
use sluicegate::rule::{ClusterMode, OnStoreFailure, Request, Rule, Scope};
use sluicegate::{Limit, Rate, Sluice};

/// Token bucket of both contenders.
#[derive(Args, Clone, Copy)]
pub(crate) struct ClusterBucket {
    /// Tokens added per second.
    pub(crate) per_second: u64,
    /// Tokens in a full bucket.
    pub(crate) burst: u64,
}

impl ClusterBucket {
    /// Cluster-wide rule that refuses without the store, so that no fallback is measured by accident.
    pub(crate) fn rule(self, mode: ClusterMode) -> Rule {
        let rate = Rate::per_second(self.per_second).expect("valid rate");
        let mut rule = Rule::new("shared", [Limit::token_bucket(rate, self.burst).expect("valid bucket")]);
        rule.scope = Scope::Cluster { mode, on_store_failure: OnStoreFailure::Closed };
        rule
    }
}

/// Connected store client and sluice.
pub(crate) struct Node {
    pub(crate) sluice: Sluice,
    _store: Arc<ClusterStore>,
}

impl Node {
    pub(crate) fn start(port: u16, rule: Rule) -> Self {
        let mut options = StoreOptions::new(Topology::Single, [format!("127.0.0.1:{port}")]);
        // Long enough that load on the machine does not make a decision fail.
        options.deadline = Duration::from_secs(2);
        let store = ClusterStore::start(&options).expect("store client starts");
        let sluice = Sluice::builder().rule(rule).store(store.clone()).build().expect("valid rule");
        let until = Instant::now() + Duration::from_secs(10);
        while store.health().state != StoreState::Connected {
            assert!(Instant::now() < until, "the store does not respond");
            thread::sleep(Duration::from_millis(1));
        }
        Self { sluice, _store: store }
    }

    /// Decides one request on the shared key.
    #[inline]
    pub(crate) fn admits(&self) -> bool {
        let outcome = self.sluice.decide(&Request::new("GET", "/"));
        assert!(!outcome.is_degraded(), "the store is unavailable: the measurement is invalid");
        outcome.is_admitted()
    }
}

/// Totals of one node.
#[derive(Clone, Copy, Default)]
pub(crate) struct NodeTotals {
    pub(crate) decisions: u64,
    pub(crate) admitted: u64,
}

/// Node in a separate process.
pub(crate) struct NodeProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: io::BufReader<ChildStdout>,
}

impl NodeProcess {
    /// Starts a node, which connects and then waits for [`begin`](Self::begin).
    pub(crate) fn start(port: u16, bucket: ClusterBucket, duration: Duration) -> Self {
        let program = std::env::current_exe().expect("path of the bench executable");
        let numbers = [u64::from(port), bucket.per_second, bucket.burst, duration.as_millis() as u64];
        let mut child = Command::new(program)
            .arg("node")
            .args(numbers.map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bench executable starts");
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = io::BufReader::new(child.stdout.take().expect("stdout is piped"));
        Self { child, stdin, stdout }
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("node output is readable");
        line
    }

    /// Waits until the node is connected.
    pub(crate) fn wait_until_ready(&mut self) {
        assert_eq!(self.read_line(), "ready\n", "the node does not connect");
    }

    /// Starts the measurement.
    pub(crate) fn begin(&mut self) {
        self.stdin.write_all(b"begin\n").expect("node input is writable");
    }

    /// Waits for the end of the measurement.
    pub(crate) fn wait_for_totals(&mut self) -> NodeTotals {
        let line = self.read_line();
        let mut numbers = line.split_whitespace().map(|number| number.parse().expect("number"));
        let (decisions, admitted) = (numbers.next().expect("decisions"), numbers.next().expect("admitted"));
        NodeTotals { decisions, admitted }
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // The process has ended or is no longer needed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs a node: connects, waits for the start signal, decides for the given time and prints its totals.
pub(crate) fn run_node(port: u16, bucket: ClusterBucket, duration: Duration) -> io::Result<()> {
    let node = Node::start(port, bucket.rule(ClusterMode::Lease));
    let mut output = io::stdout();
    output.write_all(b"ready\n")?;
    output.flush()?;
    io::stdin().read_line(&mut String::new())?;
    let started = Instant::now();
    let mut totals = NodeTotals::default();
    while started.elapsed() < duration {
        for _ in 0..64 {
            totals.admitted += u64::from(node.admits());
        }
        totals.decisions += 64;
    }
    writeln!(output, "{} {}", totals.decisions, totals.admitted)?;
    output.flush()?;
    // Exit at once: remaining leases expire.
    Ok(())
}
