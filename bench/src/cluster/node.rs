//! One node: a store and a sluice with one cluster-wide token bucket.

use std::io::{self, BufRead, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use sluicegate::cluster::{ClusterStore, State, StoreOptions, Topology};
use sluicegate::rule::{ClusterMode, OnStoreFailure, Request, Rule, Scope};
use sluicegate::{Limit, Rate, Sluice};

/// What both sides count with.
#[derive(Args, Clone, Copy)]
pub(crate) struct Bucket {
    /// Tokens that come in a second.
    pub(crate) per_second: u64,
    /// Tokens in a full bucket.
    pub(crate) burst: u64,
}

impl Bucket {
    /// A rule of the whole fleet, refused without the store, so that nothing else is measured by accident.
    pub(crate) fn rule(self, mode: ClusterMode) -> Rule {
        let rate = Rate::per_second(self.per_second).expect("a rate");
        let mut rule = Rule::new("shared", [Limit::token_bucket(rate, self.burst).expect("a bucket")]);
        rule.scope = Scope::Cluster { mode, on_store_failure: OnStoreFailure::Closed };
        rule
    }
}

/// A store and a sluice, connected.
pub(crate) struct Node {
    pub(crate) sluice: Sluice,
    _store: Arc<ClusterStore>,
}

impl Node {
    pub(crate) fn start(port: u16, rule: Rule) -> Self {
        let mut options = StoreOptions::new(Topology::Single, [format!("127.0.0.1:{port}")]);
        // Whoever else uses the machine must not turn a decision into a failure.
        options.deadline = Duration::from_secs(2);
        let store = ClusterStore::start(&options).expect("a store");
        let sluice = Sluice::builder().rule(rule).store(store.clone()).build().expect("a rule");
        let until = Instant::now() + Duration::from_secs(10);
        while store.health().state != State::Connected {
            assert!(Instant::now() < until, "the store does not answer");
            thread::sleep(Duration::from_millis(1));
        }
        Self { sluice, _store: store }
    }

    /// One decision on the key that all have in common.
    #[inline]
    pub(crate) fn admits(&self) -> bool {
        let outcome = self.sluice.decide(&Request::new("GET", "/"));
        assert!(!outcome.is_degraded(), "the store was lost: the case measures nothing");
        outcome.is_admitted()
    }
}

/// What a node has done.
#[derive(Clone, Copy, Default)]
pub(crate) struct Done {
    pub(crate) decisions: u64,
    pub(crate) admitted: u64,
}

/// A node in a process of its own.
pub(crate) struct NodeProcess {
    child: Child,
    tell: ChildStdin,
    hear: io::BufReader<ChildStdout>,
}

impl NodeProcess {
    /// Starts one, which waits for its sign to begin.
    pub(crate) fn start(port: u16, bucket: Bucket, lasting: Duration) -> Self {
        let program = std::env::current_exe().expect("the path of this program");
        let numbers = [u64::from(port), bucket.per_second, bucket.burst, lasting.as_millis() as u64];
        let mut child = Command::new(program)
            .arg("node")
            .args(numbers.map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let tell = child.stdin.take().expect("its input is ours");
        let hear = io::BufReader::new(child.stdout.take().expect("its output is ours"));
        Self { child, tell, hear }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.hear.read_line(&mut line).expect("the node speaks");
        line
    }

    /// Waits until it is connected.
    pub(crate) fn ready(&mut self) {
        assert_eq!(self.line(), "ready\n", "the node does not connect");
    }

    /// Lets it begin.
    pub(crate) fn begin(&mut self) {
        self.tell.write_all(b"begin\n").expect("the node listens");
    }

    /// Waits until it is done.
    pub(crate) fn done(&mut self) -> Done {
        let line = self.line();
        let mut numbers = line.split_whitespace().map(|number| number.parse().expect("a number"));
        let (decisions, admitted) = (numbers.next().expect("decisions"), numbers.next().expect("admitted"));
        Done { decisions, admitted }
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        // It has ended, or nobody waits for it any more.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A node's whole life: connects, waits for its sign, decides for so long, says what it did.
pub(crate) fn run_node(port: u16, bucket: Bucket, lasting: Duration) -> io::Result<()> {
    let node = Node::start(port, bucket.rule(ClusterMode::Lease));
    let mut output = io::stdout();
    output.write_all(b"ready\n")?;
    output.flush()?;
    io::stdin().read_line(&mut String::new())?;
    let started = Instant::now();
    let mut done = Done::default();
    while started.elapsed() < lasting {
        for _ in 0..64 {
            done.admitted += u64::from(node.admits());
        }
        done.decisions += 64;
    }
    writeln!(output, "{} {}", done.decisions, done.admitted)?;
    output.flush()?;
    // Leave at once: what is still leased comes back with time.
    Ok(())
}
