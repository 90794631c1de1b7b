//! Overload: a CPU-bound upstream on its own core behind the gateway with `adaptive: auto`.
//!
//! An open loop sends requests at a multiple of the upstream's measured capacity; some of them have the highest
//! priority. The results compare goodput with the capacity, and response times with those at 80 % of the capacity; they
//! show how fast the gateway settles after a step up and stops shedding after a drop.
//!
//! The capacity varies with other activity on the machine, and the p99 at 80 % load depends on a few random bursts. The
//! capacity is therefore measured before and after every load, every load runs in several interleaved rounds, and the
//! samples of all rounds are pooled.

mod arrivals;
mod work;

use std::process::Command;
use std::time::Duration;
use std::{env, process};

use arrivals::{Arrivals, PooledSamples, RequestResult};
pub(crate) use work::run_work;

use crate::programs::client::{Client, get};
use crate::programs::program::{Program, free_port};
use crate::programs::sluicegate;
use crate::programs::temp_dir::TempDir;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

/// CPU time of a request, in microseconds.
const WORK_MICROS: u64 = 4_000;
/// Connections for the capacity measurement: enough that the upstream is never idle.
const CLIENTS: u32 = 4;
/// Start of a load that is excluded from the results.
const WARM_UP: Duration = Duration::from_secs(2);
/// Multiples of the capacity, with the case names of goodput and p99.
const OVERLOADS: [(f64, &str, &str); 3] =
    [(1.2, "goodput-1.2x", "p99-1.2x"), (2.0, "goodput-2x", "p99-2x"), (5.0, "goodput-5x", "p99-5x")];
const PROTECTED: &str = "rules:\n  - { name: protect, adaptive: auto }\n  - { name: first, when: \"header['x-class'] == \
                         'vip'\", priority: vip, limits: [1000000/s] }\n";
const UNPROTECTED: &str = "rules: []\n";

/// Starts the CPU-bound upstream on the second core.
fn worker() -> Program {
    let port = free_port();
    Program::start("CPU-bound upstream", port, TempDir::new(), |_| {
        let mut command = Command::new("taskset");
        command.args(["-c", "1"]).arg(env::current_exe().expect("path of the bench executable"));
        command.args(["work", &port.to_string(), &WORK_MICROS.to_string()]);
        command
    })
}

/// Starts the gateway on the first core, which it shares with the load generator.
fn gateway(worker: &Program, rules: &str) -> Program {
    sluicegate::run(|port, _| {
        format!(
            "gateway:\n  listen: 127.0.0.1:{port}\n  threads: 1\n  upstreams: {{ work: [\"http://127.0.0.1:{}\"] }}\n  \
             routes: [{{ path: \"/{{*rest}}\", upstream: work }}]\n{rules}",
            worker.port()
        )
    })
}

/// Measures the capacity of the upstream in requests per second.
fn capacity(worker: &Program, duration: Duration) -> f64 {
    let threads: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = Client::connect(worker.port());
            std::thread::spawn(move || {
                let (started, request) = (std::time::Instant::now(), get("/"));
                let mut completed = 0u32;
                while started.elapsed() < duration {
                    client.send(&request);
                    assert_eq!(client.status(), 200, "the upstream serves every request");
                    completed += 1;
                }
                completed
            })
        })
        .collect();
    let completed: u32 = threads.into_iter().map(|thread| thread.join().expect("load thread ends")).sum();
    f64::from(completed) / duration.as_secs_f64()
}

/// Samples of one load level over all rounds, and the capacities measured before and after each round.
#[derive(Default)]
struct LoadLevel {
    samples: PooledSamples,
    capacities: Vec<f64>,
}

impl LoadLevel {
    /// Runs one more round.
    fn add(&mut self, worker: &Program, port: u16, times: f64, duration: Duration, round: u64) {
        let capacity = capacity(worker, duration / 3);
        let arrivals = Arrivals::steady(capacity * times, WARM_UP + duration, round);
        self.samples.add(arrivals.run(port), WARM_UP);
        self.capacities.extend([capacity, self::capacity(worker, duration / 3)]);
    }

    fn capacity(&self) -> f64 {
        self.capacities.iter().sum::<f64>() / self.capacities.len() as f64
    }
}

pub(crate) fn protected(scale: Scale) -> Vec<Row> {
    // Pins the load generator to the first core; threads and child processes inherit the affinity.
    let pinned = Command::new("taskset").args(["-cp", "0", &process::id().to_string()]).output();
    assert!(pinned.is_ok_and(|output| output.status.success()), "this benchmark needs taskset and two cores");
    let duration = Duration::from_secs(if scale.quick { 3 } else { 10 });
    let rounds = if scale.quick { 1 } else { 4 };
    let worker = worker();
    let ours = gateway(&worker, PROTECTED);
    let (mut baseline, mut overloads) = (LoadLevel::default(), OVERLOADS.map(|_| LoadLevel::default()));
    for round in 0..rounds {
        baseline.add(&worker, ours.port(), 0.8, duration, round);
        for (load, (times, ..)) in overloads.iter_mut().zip(OVERLOADS) {
            load.add(&worker, ours.port(), times, duration, round);
        }
    }
    let baseline_p99 = baseline.samples.p99();
    let row = |case, peer, unit, ours, theirs, goal| Row { case, peer, unit, ours, theirs, goal };
    let refused = baseline.samples.share(RequestResult::Shed);
    let mut rows = vec![row("refused-0.8x", "one in a thousand", Unit::Share, refused, 0.001, Goal::ratio(1.0))];
    for (load, (_, goodput_case, p99_case)) in overloads.iter().zip(OVERLOADS) {
        let (goodput, capacity, p99) = (load.samples.goodput(), load.capacity(), load.samples.p99());
        rows.push(row(goodput_case, "capacity", Unit::PerSecond, goodput, capacity, Goal::ratio(0.95)));
        rows.push(row(p99_case, "at 0.8 of the capacity", Unit::Micros, p99, baseline_p99, Goal::ratio(3.0)));
    }
    let [.., worst] = &overloads;
    let (served, sent) = worst.samples.high_priority_rates();
    rows.push(row("vip-5x", "all requests of the class", Unit::PerSecond, served, sent, Goal::ratio(0.999)));
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let (capacity, begin) = (capacity(&worker, duration / 2), Duration::from_secs(5));
    let step = Arrivals::stepped((capacity * 0.5, begin), (capacity * 3.0, duration)).run(ours.port());
    let settled = micros(step.settled_after(begin, capacity * 0.9));
    rows.push(row("settled-3x", "two seconds", Unit::Micros, settled, 2e6, Goal::ratio(1.0)));
    let drop = Arrivals::stepped((capacity * 3.0, duration), (capacity * 0.5, Duration::from_secs(6))).run(ours.port());
    let back = micros(drop.last_shed_after(duration));
    rows.push(row("back-0.5x", "three seconds", Unit::Micros, back, 3e6, Goal::ratio(1.0)));
    let bare = gateway(&worker, UNPROTECTED);
    let mut unprotected = LoadLevel::default();
    unprotected.add(&worker, bare.port(), 1.2, duration, 0);
    let p99 = unprotected.samples.p99();
    rows.push(row("unprotected-p99-1.2x", "at 0.8 of the capacity", Unit::Micros, p99, baseline_p99, None));
    rows
}
