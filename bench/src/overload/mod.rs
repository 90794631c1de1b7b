//! Real overload: a program that computes, on a core of its own, behind the gateway with `adaptive: auto`.
//!
//! Requests come by the clock at a multiple of what the program was measured to do; a part of them are of the highest
//! class. What is compared are the gates of the adaptive laws: goodput with capacity, times with those at four fifths of
//! it, how soon it settles after a step and is back after a drop.
//!
//! What the program can do changes with the machine's mood, and the time of the slowest hundredth at four fifths of it is
//! the matter of a few crowds that came by chance. So capacity is measured before and after every load, and all loads
//! come several times, in turn; what is compared is pooled.

mod arrivals;
mod work;

use std::process::Command;
use std::time::Duration;
use std::{env, process};

use arrivals::{Arrivals, Fate, Steady};
pub(crate) use work::run_work;

use crate::programs::client::{Client, get};
use crate::programs::folder::Folder;
use crate::programs::program::{Program, free_port};
use crate::programs::sluicegate;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

/// What a request costs the program, in microseconds of computing.
const MICROS: u64 = 4_000;
/// Who is asked for what it can do: enough that it never waits for work.
const ASKERS: u32 = 4;
/// What is not looked at after a load has begun.
const SETTLING: Duration = Duration::from_secs(2);
/// Overload of how many times the capacity, and the names of what is compared.
const OVERLOADS: [(f64, &str, &str); 3] =
    [(1.2, "goodput-1.2x", "p99-1.2x"), (2.0, "goodput-2x", "p99-2x"), (5.0, "goodput-5x", "p99-5x")];
const PROTECTED: &str = "rules:\n  - { name: protect, adaptive: auto }\n  - { name: first, when: \"header['x-class'] == \
                         'vip'\", priority: vip, limits: [1000000/s] }\n";
const UNPROTECTED: &str = "rules: []\n";

/// The program that computes, on the second core.
fn worker() -> Program {
    let port = free_port();
    Program::start("a program that computes", port, Folder::new(), |_| {
        let mut command = Command::new("taskset");
        command.args(["-c", "1"]).arg(env::current_exe().expect("the path of this program"));
        command.args(["work", &port.to_string(), &MICROS.to_string()]);
        command
    })
}

/// The gateway, on the first core with those who ask.
fn gateway(worker: &Program, rules: &str) -> Program {
    sluicegate::run(|port| {
        format!(
            "gateway:\n  listen: 127.0.0.1:{port}\n  threads: 1\n  upstreams: {{ work: [\"http://127.0.0.1:{}\"] }}\n  \
             routes: [{{ path: \"/{{*rest}}\", upstream: work }}]\n{rules}",
            worker.port()
        )
    })
}

/// How many requests per second the program can do.
fn capacity(worker: &Program, lasting: Duration) -> f64 {
    let asking: Vec<_> = (0..ASKERS)
        .map(|_| {
            let mut client = Client::connect(worker.port());
            std::thread::spawn(move || {
                let (begun, request) = (std::time::Instant::now(), get("/"));
                let mut done = 0u32;
                while begun.elapsed() < lasting {
                    client.send(&request);
                    assert_eq!(client.status(), 200, "it answers all");
                    done += 1;
                }
                done
            })
        })
        .collect();
    let done: u32 = asking.into_iter().map(|asker| asker.join().expect("it answers all")).sum();
    f64::from(done) / lasting.as_secs_f64()
}

/// One load in all rounds, and what the program could do just before and after each.
#[derive(Default)]
struct Load {
    seen: Steady,
    capacities: Vec<f64>,
}

impl Load {
    /// It comes once more.
    fn add(&mut self, worker: &Program, port: u16, times: f64, lasting: Duration, round: u64) {
        let capacity = capacity(worker, lasting / 3);
        let arrivals = Arrivals::steady(capacity * times, SETTLING + lasting, round);
        self.seen.add(arrivals.run(port), SETTLING);
        self.capacities.extend([capacity, self::capacity(worker, lasting / 3)]);
    }

    fn capacity(&self) -> f64 {
        self.capacities.iter().sum::<f64>() / self.capacities.len() as f64
    }
}

pub(crate) fn protected(scale: Scale) -> Vec<Row> {
    // Those who ask stay away from the core that computes; threads inherit it.
    let pinned = Command::new("taskset").args(["-cp", "0", &process::id().to_string()]).output();
    assert!(pinned.is_ok_and(|output| output.status.success()), "taskset is needed, and two cores");
    let lasting = Duration::from_secs(if scale.quick { 3 } else { 10 });
    let rounds = if scale.quick { 1 } else { 4 };
    let worker = worker();
    let ours = gateway(&worker, PROTECTED);
    let (mut calm, mut overloads) = (Load::default(), OVERLOADS.map(|_| Load::default()));
    for round in 0..rounds {
        calm.add(&worker, ours.port(), 0.8, lasting, round);
        for (load, (times, ..)) in overloads.iter_mut().zip(OVERLOADS) {
            load.add(&worker, ours.port(), times, lasting, round);
        }
    }
    let usual = calm.seen.p99();
    let row = |case, peer, unit, ours, theirs, goal| Row { case, peer, unit, ours, theirs, goal };
    let refused = calm.seen.share(Fate::HeldBack);
    let mut rows = vec![row("refused-0.8x", "one in a thousand", Unit::Share, refused, 0.001, Goal::ratio(1.0))];
    for (load, (_, goodput, p99)) in overloads.iter().zip(OVERLOADS) {
        let (done, capacity, late) = (load.seen.goodput(), load.capacity(), load.seen.p99());
        rows.push(row(goodput, "its capacity", Unit::PerSecond, done, capacity, Goal::ratio(0.95)));
        rows.push(row(p99, "at 0.8 of its capacity", Unit::Micros, late, usual, Goal::ratio(3.0)));
    }
    let [.., worst] = &overloads;
    let (served, came) = worst.seen.highest_class();
    rows.push(row("vip-5x", "all of them", Unit::PerSecond, served, came, Goal::ratio(0.999)));
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let (capacity, begin) = (capacity(&worker, lasting / 2), Duration::from_secs(5));
    let step = Arrivals::stepped((capacity * 0.5, begin), (capacity * 3.0, lasting)).run(ours.port());
    let settled = micros(step.settled_after(begin, capacity * 0.9));
    rows.push(row("settled-3x", "two seconds", Unit::Micros, settled, 2e6, Goal::ratio(1.0)));
    let drop = Arrivals::stepped((capacity * 3.0, lasting), (capacity * 0.5, Duration::from_secs(6))).run(ours.port());
    let back = micros(drop.last_held_back_after(lasting));
    rows.push(row("back-0.5x", "three seconds", Unit::Micros, back, 3e6, Goal::ratio(1.0)));
    let bare = gateway(&worker, UNPROTECTED);
    let mut unprotected = Load::default();
    unprotected.add(&worker, bare.port(), 1.2, lasting, 0);
    let p99 = unprotected.seen.p99();
    rows.push(row("unprotected-p99-1.2x", "at 0.8 of its capacity", Unit::Micros, p99, usual, None));
    rows
}
