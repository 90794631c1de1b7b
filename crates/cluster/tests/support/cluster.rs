//! Cluster nodes as real processes: the test binary, started again as one node.
//!
//! A node reports its progress on standard output and ends when its standard input closes. It writes its
//! admissions to a file, in nanoseconds of a clock shared by all processes of the machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluicegate_cluster::StoreOptions;
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule};
use sluicegate_engine::{Limit, Outcome, Rate};
use sluicegate_testkit::history::{Call, CallRecorder};

use super::{Process, get, leased, options_at, with_policy};

/// Admissions within this time are recorded together.
const RECORD_WINDOW_NANOS: u64 = 100_000;
/// Length of a slot by which decisions are counted.
pub(crate) const SLOT_NANOS: u64 = 10_000_000;
/// Time after which the load rotates to the next node.
const PHASE_NANOS: u64 = 500_000_000;
/// Share of the load per node, in percent; rotates with the phase.
const SKEW: [u64; 4] = [70, 20, 8, 2];

/// Configuration of all nodes of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct NodeConfig {
    pub(crate) port: u16,
    pub(crate) mode: ClusterMode,
    /// The limit, as in a rule file.
    pub(crate) limit: String,
    pub(crate) burst: Option<u64>,
    /// Decisions per second of the whole cluster.
    pub(crate) load: u64,
    /// Threads of each node.
    pub(crate) threads: u64,
    /// Permits taken first and held to the end.
    pub(crate) permits: u64,
}

/// Time to live of permits: long enough for renewals on a busy machine.
pub(crate) const PERMIT_TTL: Duration = Duration::from_secs(3);

/// A clock shared by all processes of a machine: the wall clock at startup, plus the monotonic time
/// since.
pub(crate) struct SharedClock {
    instant: Instant,
    wall: u64,
    uncertainty: u64,
}

impl SharedClock {
    /// The closest of many readings of both clocks.
    pub(crate) fn read() -> Self {
        let readings = (0..200).map(|_| {
            let instant = Instant::now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
            Self { instant, wall, uncertainty: instant.elapsed().as_nanos() as u64 }
        });
        readings.min_by_key(|reading| reading.uncertainty).unwrap()
    }

    pub(crate) fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    pub(crate) fn at(&self, instant: Instant) -> u64 {
        self.wall + instant.saturating_duration_since(self.instant).as_nanos() as u64
    }

    /// Maximum difference to another process's clock, given both clocks now.
    pub(crate) fn uncertainty(&self) -> u64 {
        let again = Self::read();
        self.at(again.instant).abs_diff(again.wall) + self.uncertainty + again.uncertainty
    }
}

/// Handle of a node in the test. Dropping it kills the node.
pub(crate) struct Node {
    child: Child,
    input: Option<ChildStdin>,
    decisions: Arc<AtomicU64>,
    is_ready: Arc<AtomicBool>,
    file: PathBuf,
}

impl Node {
    /// Starts a node: the ignored test `cluster::node` of this binary, with this configuration and number.
    pub(crate) fn start(config: &NodeConfig, number: usize) -> Self {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let index = FILES.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("sluicegate-node-{}-{index}", std::process::id()));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "cluster::node", "--ignored", "--nocapture"])
            .env("NODE_PORT", config.port.to_string())
            .env("NODE_MODE", if config.mode == ClusterMode::Lease { "lease" } else { "exact" })
            .env("NODE_LIMIT", &config.limit)
            .env("NODE_BURST", config.burst.unwrap_or(0).to_string())
            .env("NODE_LOAD", config.load.to_string())
            .env("NODE_THREADS", config.threads.to_string())
            .env("NODE_PERMITS", config.permits.to_string())
            .env("NODE_NUMBER", number.to_string())
            .env("NODE_FILE", &file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (decisions, is_ready) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let output = BufReader::new(child.stdout.take().unwrap());
        let (received, ready) = (Arc::clone(&decisions), Arc::clone(&is_ready));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(decision) = line.strip_prefix("decisions ") {
                    received.store(decision.parse().unwrap(), Ordering::Relaxed);
                    ready.store(true, Ordering::Relaxed);
                }
            }
        });
        Self { input: child.stdin.take(), child, decisions, is_ready, file }
    }

    /// Number of decisions so far.
    pub(crate) fn decisions(&self) -> u64 {
        self.decisions.load(Ordering::Relaxed)
    }

    /// True once it has begun.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Signals it to end.
    pub(crate) fn stop(&mut self) {
        self.input = None;
    }

    /// Suspends or resumes it: `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Kills it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end and reads its report: admissions, decisions, and decisions made without
    /// the store.
    pub(crate) fn report(mut self) -> NodeReport {
        self.stop();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a node failed: {status}");
        NodeReport::read(&self.file)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_file(&self.file));
    }
}

/// Report of a node.
#[derive(Debug, Default)]
pub(crate) struct NodeReport {
    pub(crate) decisions: u64,
    pub(crate) degraded: u64,
    pub(crate) uncertainty: u64,
    /// Number of decisions begun per slot, by slot index.
    pub(crate) demand: Vec<(u64, u64)>,
    pub(crate) calls: Vec<Call<()>>,
}

impl NodeReport {
    fn write(&self, file: &Path) {
        let head = [self.decisions, self.degraded, self.uncertainty, self.demand.len() as u64];
        let demand = self.demand.iter().flat_map(|(slot, count)| [*slot, *count]);
        let calls = self.calls.iter().flat_map(|call| [call.called_at, call.returned_at, call.cost]);
        let bytes: Vec<u8> = head.into_iter().chain(demand).chain(calls).flat_map(u64::to_le_bytes).collect();
        std::fs::write(file, bytes).unwrap();
    }

    /// Reads a report; intervals are widened by the uncertainty of the node's clock.
    fn read(file: &Path) -> Self {
        let bytes = std::fs::read(file).unwrap();
        let numbers: Vec<u64> =
            bytes.chunks_exact(8).map(|eight| u64::from_le_bytes(eight.try_into().unwrap())).collect();
        let &[decisions, degraded, doubt, slots, ref rest @ ..] = &numbers[..] else { panic!("a short report") };
        let (demand, calls) = rest.split_at(2 * slots as usize);
        let demand = demand.chunks_exact(2).map(|two| (two[0], two[1])).collect();
        let call = |three: &[u64]| Call {
            node: 0,
            key: (),
            cost: three[2],
            admitted: true,
            called_at: three[0].saturating_sub(doubt),
            returned_at: three[1] + doubt,
        };
        Self { decisions, degraded, uncertainty: doubt, demand, calls: calls.chunks_exact(3).map(call).collect() }
    }
}

/// Body of the test `node`: decides as configured until its input closes. Does nothing without a configuration.
pub(crate) fn run_node() {
    let Ok(port) = std::env::var("NODE_PORT") else { return };
    let text = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| text(name).parse::<u64>().unwrap();
    let rule = rule(&text("NODE_LIMIT"), number("NODE_BURST"), &text("NODE_MODE"), number("NODE_PERMITS"));
    let process = Process::with(&node_options(format!("127.0.0.1:{port}")), [rule]);
    let held: Vec<Outcome> = (0..number("NODE_PERMITS")).map(|_| process.sluice.decide(&get())).collect();
    assert!(held.iter().all(Outcome::is_admitted));
    let (node, load, threads) = (number("NODE_NUMBER"), number("NODE_LOAD"), number("NODE_THREADS"));

    let (clock, is_over, decisions) = (SharedClock::read(), AtomicBool::new(false), AtomicU64::new(0));
    let mut report = thread::scope(|scope| {
        let pending =
            |_| scope.spawn(|| decide_under_load(&process, &clock, node, load / threads, &is_over, &decisions));
        let pending: Vec<_> = (0..threads).map(pending).collect();
        scope.spawn(|| {
            drop(std::io::stdin().read_to_end(&mut Vec::new()));
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            // On a line of its own, after any earlier output.
            print_line(&format!("\ndecisions {}", decisions.load(Ordering::Relaxed)));
            thread::sleep(Duration::from_millis(50));
        }
        let mut report = NodeReport::default();
        for thread_report in pending.into_iter().map(|thread| thread.join().unwrap()) {
            report.calls.extend(thread_report.calls);
            report.demand.extend(thread_report.demand);
            report.degraded += thread_report.degraded;
        }
        report
    });
    report.decisions = decisions.load(Ordering::Relaxed);
    report.uncertainty = clock.uncertainty();
    report.write(Path::new(&text("NODE_FILE")));
    process.close();
}

fn print_line(line: &str) {
    // The reader may be gone.
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// Store options of every node.
pub(crate) fn node_options(address: String) -> StoreOptions {
    StoreOptions { permit_time_to_live: PERMIT_TTL, ..options_at(address) }
}

fn rule(limit: &str, burst: u64, mode: &str, permits: u64) -> Rule {
    let limit = match (burst, permits) {
        (0, 0) => limit.parse(),
        (0, permits) => Limit::concurrency(permits),
        (burst, _) => Rate::per_second(limit.parse().unwrap()).and_then(|rate| Limit::token_bucket(rate, burst)),
    };
    let rule = Rule::new("total", [limit.unwrap()]);
    match mode {
        "lease" => leased(OnStoreFailure::Closed, rule),
        _ => with_policy(OnStoreFailure::Closed, rule),
    }
}

/// Decides, a millisecond's worth at a time, at the rate of the current skew.
fn decide_under_load(
    process: &Process,
    clock: &SharedClock,
    node: u64,
    load: u64,
    is_over: &AtomicBool,
    decisions: &AtomicU64,
) -> NodeReport {
    let request = get();
    let mut recorder = CallRecorder::new(0, RECORD_WINDOW_NANOS);
    let mut demand: Vec<(u64, u64)> = Vec::new();
    let mut degraded = 0;
    let mut slot = clock.now();
    while !is_over.load(Ordering::Relaxed) {
        let share = SKEW[(node + slot / PHASE_NANOS) as usize % SKEW.len()];
        let count = (load * share / 100 / 1_000).max(1);
        let start = clock.now();
        let mut called_at = start;
        for _ in 0..count {
            let outcome = process.sluice.decide(&request);
            let returned_at = clock.now();
            degraded += u64::from(outcome.is_degraded());
            if outcome.is_admitted() {
                recorder.record(called_at, returned_at);
            }
            // The next call starts immediately.
            called_at = returned_at;
        }
        decisions.fetch_add(count, Ordering::Relaxed);
        match demand.last_mut() {
            Some((last, counted)) if *last == start / SLOT_NANOS => *counted += count,
            _ => demand.push((start / SLOT_NANOS, count)),
        }
        // A late node does not catch up: the load is limited by the machine.
        slot = (slot + 1_000_000).max(called_at);
        thread::sleep(Duration::from_nanos(slot.saturating_sub(called_at)));
    }
    NodeReport { degraded, demand, calls: recorder.into_calls(), ..NodeReport::default() }
}
