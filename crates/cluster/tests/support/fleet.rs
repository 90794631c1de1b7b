//! Processes of a fleet that really are processes: the test's own program, started again as one node.
//!
//! A node says how far it is on its standard output and ends when its standard input does. What it admitted
//! it leaves in a file, in nanoseconds of a clock that all of the machine's processes share.

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
use sluicegate_testkit::history::{Call, Recorder};

use super::{Process, get, leased, options_at, with_policy};

/// What is admitted within this is written down together.
const TOGETHER: u64 = 100_000;
/// Decisions are counted by slots of this.
pub(crate) const SLOT: u64 = 10_000_000;
/// How long one node is asked the most before another is.
const PHASE: u64 = 500_000_000;
/// How much of the load each node has, in percent; who is which changes with the phase.
const SKEW: [u64; 4] = [70, 20, 8, 2];

/// What all nodes of a fleet do.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) port: u16,
    pub(crate) mode: ClusterMode,
    /// The limit, as in a rule file.
    pub(crate) limit: String,
    pub(crate) burst: Option<u64>,
    /// Decisions per second of the whole fleet.
    pub(crate) load: u64,
    /// Threads of each node.
    pub(crate) threads: u64,
    /// So many permits are taken first and held to the end.
    pub(crate) permits: u64,
}

/// How long permits live that are not renewed: long enough to be renewed on a machine that does other things.
pub(crate) const PERMIT_LIFE: Duration = Duration::from_secs(3);

/// A clock that all processes of a machine share: the wall clock as it stood at the start, and what has
/// passed since.
pub(crate) struct SharedClock {
    instant: Instant,
    wall: u64,
    doubt: u64,
}

impl SharedClock {
    /// The closest of many readings of both clocks.
    pub(crate) fn read() -> Self {
        let readings = (0..200).map(|_| {
            let instant = Instant::now();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
            Self { instant, wall, doubt: instant.elapsed().as_nanos() as u64 }
        });
        readings.min_by_key(|reading| reading.doubt).unwrap()
    }

    pub(crate) fn now(&self) -> u64 {
        self.at(Instant::now())
    }

    pub(crate) fn at(&self, instant: Instant) -> u64 {
        self.wall + instant.saturating_duration_since(self.instant).as_nanos() as u64
    }

    /// How far the clock may be from another process's, given how both clocks stand now.
    pub(crate) fn doubt(&self) -> u64 {
        let again = Self::read();
        self.at(again.instant).abs_diff(again.wall) + self.doubt + again.doubt
    }
}

/// A node, seen from the test. Dropping it kills it.
pub(crate) struct Node {
    child: Child,
    input: Option<ChildStdin>,
    decisions: Arc<AtomicU64>,
    is_ready: Arc<AtomicBool>,
    file: PathBuf,
}

impl Node {
    /// Starts one: the ignored test called `node` of this program, with these orders and number.
    pub(crate) fn start(orders: &Orders, number: usize) -> Self {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let nth = FILES.fetch_add(1, Ordering::Relaxed);
        let file = std::env::temp_dir().join(format!("sluicegate-node-{}-{nth}", std::process::id()));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "node", "--ignored", "--nocapture"])
            .env("NODE_PORT", orders.port.to_string())
            .env("NODE_MODE", if orders.mode == ClusterMode::Lease { "lease" } else { "exact" })
            .env("NODE_LIMIT", &orders.limit)
            .env("NODE_BURST", orders.burst.unwrap_or(0).to_string())
            .env("NODE_LOAD", orders.load.to_string())
            .env("NODE_THREADS", orders.threads.to_string())
            .env("NODE_PERMITS", orders.permits.to_string())
            .env("NODE_NUMBER", number.to_string())
            .env("NODE_FILE", &file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (decisions, is_ready) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let output = BufReader::new(child.stdout.take().unwrap());
        let (heard, ready) = (Arc::clone(&decisions), Arc::clone(&is_ready));
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some(said) = line.strip_prefix("decisions ") {
                    heard.store(said.parse().unwrap(), Ordering::Relaxed);
                    ready.store(true, Ordering::Relaxed);
                }
            }
        });
        Self { input: child.stdin.take(), child, decisions, is_ready, file }
    }

    /// How many decisions it has made.
    pub(crate) fn decisions(&self) -> u64 {
        self.decisions.load(Ordering::Relaxed)
    }

    /// Whether it has begun.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Tells it to end.
    pub(crate) fn stop(&mut self) {
        self.input = None;
    }

    /// Stops it from doing anything, or lets it go on: `STOP` or `CONT`.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Kills it, as nothing can be caught.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end and reads what it admitted, and how many decisions of how many were made without
    /// the store.
    pub(crate) fn report(mut self) -> Report {
        self.stop();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a node failed: {status}");
        Report::read(&self.file)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_file(&self.file));
    }
}

/// What a node did.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) decisions: u64,
    pub(crate) degraded: u64,
    pub(crate) doubt: u64,
    /// How many decisions began in which slot, by the slot's number.
    pub(crate) demand: Vec<(u64, u64)>,
    pub(crate) calls: Vec<Call<()>>,
}

impl Report {
    fn write(&self, file: &Path) {
        let head = [self.decisions, self.degraded, self.doubt, self.demand.len() as u64];
        let demand = self.demand.iter().flat_map(|(slot, many)| [*slot, *many]);
        let calls = self.calls.iter().flat_map(|call| [call.called_at, call.returned_at, call.cost]);
        let bytes: Vec<u8> = head.into_iter().chain(demand).chain(calls).flat_map(u64::to_le_bytes).collect();
        std::fs::write(file, bytes).unwrap();
    }

    /// Each interval as wide as the doubt in the node's clock makes it.
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
        Self { decisions, degraded, doubt, demand, calls: calls.chunks_exact(3).map(call).collect() }
    }
}

/// What the test called `node` does: decides as ordered until its input ends. Nothing if nobody ordered.
pub(crate) fn be_a_node() {
    let Ok(port) = std::env::var("NODE_PORT") else { return };
    let text = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| text(name).parse::<u64>().unwrap();
    let rule = rule(&text("NODE_LIMIT"), number("NODE_BURST"), &text("NODE_MODE"), number("NODE_PERMITS"));
    let process = Process::with(&node_options(format!("127.0.0.1:{port}")), [rule]);
    let held: Vec<Outcome> = (0..number("NODE_PERMITS")).map(|_| process.sluice.decide(&get())).collect();
    assert!(held.iter().all(Outcome::is_admitted));
    let (place, load, threads) = (number("NODE_NUMBER"), number("NODE_LOAD"), number("NODE_THREADS"));

    let (clock, is_over, decisions) = (SharedClock::read(), AtomicBool::new(false), AtomicU64::new(0));
    let mut report = thread::scope(|scope| {
        let asking = |_| scope.spawn(|| ask(&process, &clock, place, load / threads, &is_over, &decisions));
        let asking: Vec<_> = (0..threads).map(asking).collect();
        scope.spawn(|| {
            drop(std::io::stdin().read_to_end(&mut Vec::new()));
            is_over.store(true, Ordering::Relaxed);
        });
        while !is_over.load(Ordering::Relaxed) {
            // On a line of its own, whatever was written before.
            print_line(&format!("\ndecisions {}", decisions.load(Ordering::Relaxed)));
            thread::sleep(Duration::from_millis(50));
        }
        let mut report = Report::default();
        for asked in asking.into_iter().map(|thread| thread.join().unwrap()) {
            report.calls.extend(asked.calls);
            report.demand.extend(asked.demand);
            report.degraded += asked.degraded;
        }
        report
    });
    report.decisions = decisions.load(Ordering::Relaxed);
    report.doubt = clock.doubt();
    report.write(Path::new(&text("NODE_FILE")));
    process.vanish();
}

fn print_line(line: &str) {
    // Who is gone need not be told.
    drop(writeln!(std::io::stdout(), "{line}"));
}

/// How every node reaches the store.
pub(crate) fn node_options(address: String) -> StoreOptions {
    StoreOptions { permit_time_to_live: PERMIT_LIFE, ..options_at(address) }
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

/// Decides, a millisecond's worth at a time, as many as the skew of the moment calls for.
fn ask(
    process: &Process,
    clock: &SharedClock,
    place: u64,
    load: u64,
    is_over: &AtomicBool,
    decisions: &AtomicU64,
) -> Report {
    let request = get();
    let mut recorder = Recorder::new(0, TOGETHER);
    let mut demand: Vec<(u64, u64)> = Vec::new();
    let mut degraded = 0;
    let mut slot = clock.now();
    while !is_over.load(Ordering::Relaxed) {
        let share = SKEW[(place + slot / PHASE) as usize % SKEW.len()];
        let many = (load * share / 100 / 1_000).max(1);
        let begun = clock.now();
        let mut called_at = begun;
        for _ in 0..many {
            let outcome = process.sluice.decide(&request);
            let returned_at = clock.now();
            degraded += u64::from(outcome.is_degraded());
            if outcome.is_admitted() {
                recorder.admitted(called_at, returned_at);
            }
            // The next is called right now.
            called_at = returned_at;
        }
        decisions.fetch_add(many, Ordering::Relaxed);
        match demand.last_mut() {
            Some((last, counted)) if *last == begun / SLOT => *counted += many,
            _ => demand.push((begun / SLOT, many)),
        }
        // Who is late does not catch up: the load is what the machine can do.
        slot = (slot + 1_000_000).max(called_at);
        thread::sleep(Duration::from_nanos(slot.saturating_sub(called_at)));
    }
    Report { degraded, demand, calls: recorder.into_calls(), ..Report::default() }
}
