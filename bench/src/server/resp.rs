//! Decisions over the Redis protocol: `resp-p1` and `resp-p16`.

use std::fs;
use std::process::Command;

use sluicegate_testkit::servers::RedisServer;

use crate::programs::redis_benchmark::Asking;
use crate::programs::rounds::medians;
use crate::programs::sluicegate;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const KEYS: u32 = 1_000_000;
/// Where `scripts/redis-cell` puts the module.
const CELL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/redis-cell-0.2.2.so");

pub(crate) fn one_at_a_time(scale: Scale) -> Vec<Row> {
    beside("resp-p1", 1, scale.size(500_000), scale)
}

pub(crate) fn sixteen_at_a_time(scale: Scale) -> Vec<Row> {
    beside("resp-p16", 16, scale.size(2_000_000), scale)
}

fn beside(case: &'static str, pipelined: u32, calls: u32, scale: Scale) -> Vec<Row> {
    let ours = sluicegate::run(|port| format!("server: {{ resp: 127.0.0.1:{port} }}\n"));
    let redis = RedisServer::start().expect("a Redis");
    let cell = fs::exists(CELL).unwrap_or(false).then(|| RedisServer::start_with(&["--loadmodule", CELL]));
    let cell = cell.map(|started| started.expect("a Redis with redis-cell"));
    let mut sides = vec![Side::throttle("", ours.port()), Side::count("Redis INCR", redis.port())];
    sides.extend(cell.as_ref().map(|redis| Side::throttle("redis-cell 0.2.2", redis.port())));
    let asking = Asking { clients: 50, pipelined, keys: KEYS, calls };
    for side in &sides {
        side.prove_it_answers();
        // Not counted: most keys are new to it.
        Asking { pipelined: 16, calls: KEYS, ..asking }.per_second(side.port, side.call);
    }
    let rounds = if scale.quick { 3 } else { 5 };
    let figures = medians(rounds, &sides, |side| asking.per_second(side.port, side.call));
    sides.iter().for_each(Side::prove_it_answers);
    let row = |(side, theirs): (&Side, &f64)| Row {
        case,
        peer: side.peer,
        unit: Unit::PerSecond,
        ours: figures[0],
        theirs: *theirs,
        goal: side.goal,
    };
    sides.iter().zip(&figures).skip(1).map(row).collect()
}

/// A server, and what it is asked.
struct Side {
    peer: &'static str,
    port: u16,
    call: &'static [&'static str],
    /// Whether this is an answer to it, in the form in which redis-cli shows it.
    is_right: fn(&str) -> bool,
    /// What ours must reach beside it.
    goal: Option<Goal>,
}

impl Side {
    const fn throttle(peer: &'static str, port: u16) -> Self {
        Self {
            peer,
            port,
            call: &["CL.THROTTLE", "key:__rand_int__", "100", "100", "60"],
            // Not limited, of 101.
            is_right: |answer| answer.starts_with("0\n101\n"),
            goal: None,
        }
    }

    const fn count(peer: &'static str, port: u16) -> Self {
        Self {
            peer,
            port,
            call: &["INCR", "key:__rand_int__"],
            is_right: |answer| answer.trim().parse::<u64>().is_ok_and(|count| count > 0),
            goal: Goal::ratio(1.0),
        }
    }

    /// Asks once, and looks at the answer.
    fn prove_it_answers(&self) {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(self.call).output();
        let output = output.expect("redis-cli runs; `scripts/setup bench` installs it");
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!((self.is_right)(&answer), "{} at {}: {answer}", self.call[0], self.port);
    }
}
