//! Real overload: a program that computes, on a core of its own, behind the gateway with `adaptive: auto`.
//!
//! Requests come by the clock at a multiple of what the program was measured to do; a part of them are of the highest
//! class. What is compared are the gates of the adaptive laws: goodput with capacity, times with those at four fifths of
//! it, how soon it settles after a step and is back after a drop.

mod arrivals;
mod work;

use std::process::Command;
use std::time::Duration;
use std::{env, process};

use arrivals::{Arrivals, Fate};
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

pub(crate) fn protected(scale: Scale) -> Vec<Row> {
    // Those who ask stay away from the core that computes; threads inherit it.
    let pinned = Command::new("taskset").args(["-cp", "0", &process::id().to_string()]).output();
    assert!(pinned.is_ok_and(|output| output.status.success()), "taskset is needed, and two cores");
    let lasting = Duration::from_secs(if scale.quick { 3 } else { 10 });
    let settling = Duration::from_secs(2);
    let worker = worker();
    let capacity = capacity(&worker, lasting / 2);
    let ours = gateway(&worker, PROTECTED);
    let at = |times: f64| Arrivals::steady(capacity * times, settling + lasting).run(ours.port());
    let calm = at(0.8);
    let usual = calm.p99(settling);
    let mut rows = vec![Row {
        case: "refused-0.8x",
        peer: "one in a thousand",
        unit: Unit::Share,
        ours: calm.share(Fate::HeldBack, settling),
        theirs: 0.001,
        goal: Goal::ratio(1.0),
    }];
    for (times, goodput, p99) in
        [(1.2, "goodput-1.2x", "p99-1.2x"), (2.0, "goodput-2x", "p99-2x"), (5.0, "goodput-5x", "p99-5x")]
    {
        let seen = at(times);
        let row = |case, peer, unit, ours, theirs, goal| Row { case, peer, unit, ours, theirs, goal };
        rows.push(row(goodput, "its capacity", Unit::PerSecond, seen.goodput(settling), capacity, Goal::ratio(0.95)));
        rows.push(row(p99, "at 0.8 of its capacity", Unit::Micros, seen.p99(settling), usual, Goal::ratio(3.0)));
        if times == 5.0 {
            let (served, came) = seen.highest_class(settling);
            rows.push(row("vip-5x", "all of them", Unit::PerSecond, served, came, Goal::ratio(0.999)));
        }
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    let step = Arrivals::stepped(capacity * 0.5, Duration::from_secs(5), capacity * 3.0, lasting).run(ours.port());
    let settled = step.settled_after(Duration::from_secs(5), capacity * 0.9);
    rows.push(Row {
        case: "settled-3x",
        peer: "two seconds",
        unit: Unit::Micros,
        ours: micros(settled),
        theirs: 2e6,
        goal: Goal::ratio(1.0),
    });
    let drop = Arrivals::stepped(capacity * 3.0, lasting, capacity * 0.5, Duration::from_secs(6)).run(ours.port());
    rows.push(Row {
        case: "back-0.5x",
        peer: "three seconds",
        unit: Unit::Micros,
        ours: micros(drop.last_held_back_after(lasting)),
        theirs: 3e6,
        goal: Goal::ratio(1.0),
    });
    let bare = gateway(&worker, UNPROTECTED);
    let seen = Arrivals::steady(capacity * 1.2, settling + lasting).run(bare.port());
    rows.push(Row {
        case: "unprotected-p99-1.2x",
        peer: "at 0.8 of its capacity",
        unit: Unit::Micros,
        ours: seen.p99(settling),
        theirs: usual,
        goal: None,
    });
    rows
}
