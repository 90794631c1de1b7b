//! Decisions over the Redis protocol: `resp-p1` and `resp-p16`.

use std::fs;
use std::process::Command;

use sluicegate_testkit::servers::RedisServer;

use crate::cluster::plain::PLAIN;
use crate::programs::folder::Folder;
use crate::programs::program::{Program, free_port};
use crate::programs::redis_benchmark::Asking;
use crate::programs::rounds::medians;
use crate::programs::sluicegate;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const KEYS: u32 = 1_000_000;
/// Where `scripts/redis-cell` puts the module.
const CELL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/redis-cell-0.2.2.so");
/// Where `scripts/throttlecrab` puts the server.
const CRAB: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/throttlecrab-server-0.4.40");

/// One thread, as Redis has one, which looks for more before it sleeps; beside it, ours as it comes.
pub(crate) fn one_at_a_time(scale: Scale) -> Vec<Row> {
    beside("resp-p1", "threads: 1, busy_poll: 50us", Some("resp-p1-usual"), 1, scale.size(500_000), scale)
}

pub(crate) fn sixteen_at_a_time(scale: Scale) -> Vec<Row> {
    beside("resp-p16", "", None, 16, scale.size(2_000_000), scale)
}

/// Measures ours with these settings beside the others; where there is a name for it, also ours without them.
fn beside(
    case: &'static str,
    settings: &str,
    usual_case: Option<&'static str>,
    pipelined: u32,
    calls: u32,
    scale: Scale,
) -> Vec<Row> {
    let with = |settings: &str| {
        let settings = settings.to_owned();
        sluicegate::run(move |port| format!("server: {{ resp: 127.0.0.1:{port}, {settings} }}\n"))
    };
    let (ours, usual) = (with(settings), usual_case.map(|_| with("")));
    let redis = RedisServer::start().expect("a Redis");
    let cell = fs::exists(CELL).unwrap_or(false).then(|| RedisServer::start_with(&["--loadmodule", CELL]));
    let cell = cell.map(|started| started.expect("a Redis with redis-cell"));
    let crab = fs::exists(CRAB).unwrap_or(false).then(throttlecrab);
    let scripted = RedisServer::start().expect("a Redis for the script");
    let mut sides = vec![Side::throttle("", ours.port()), Side::count("Redis INCR", redis.port())];
    sides.extend(cell.as_ref().map(|redis| Side::throttle("redis-cell 0.2.2", redis.port())));
    sides.extend(crab.as_ref().map(|server| Side::crab("throttlecrab 0.4.40", server.port())));
    sides.push(Side::script("the usual Lua script", &scripted));
    sides.extend(usual.as_ref().map(|usual| Side::throttle("itself as it comes", usual.port())));
    let asking = Asking { clients: 50, pipelined, keys: KEYS, calls };
    for side in &sides {
        side.prove_it_answers();
        // Not counted: most keys are new to it.
        Asking { pipelined: 16, calls: KEYS / side.part, ..asking }.per_second(side.port, &side.words());
    }
    let rounds = if scale.quick { 3 } else { 5 };
    let figures = medians(rounds, &sides, |side| {
        Asking { calls: calls / side.part, ..asking }.per_second(side.port, &side.words())
    });
    sides.iter().for_each(Side::prove_it_answers);
    let row = |case, ours, (side, theirs): (&Side, &f64), goal| Row {
        case,
        peer: side.peer,
        unit: Unit::PerSecond,
        ours,
        theirs: *theirs,
        goal,
    };
    let peers = || sides.iter().zip(&figures).skip(1);
    let mut rows: Vec<Row> = peers().map(|it| row(case, figures[0], it, it.0.goal)).collect();
    if let (Some(case), Some(usual)) = (usual_case, figures.last()) {
        rows.extend(peers().next().map(|it| row(case, *usual, it, None)));
    }
    rows
}

/// throttlecrab's server, speaking the Redis protocol alone, with room for all keys from the start.
fn throttlecrab() -> Program {
    let port = free_port();
    Program::start("throttlecrab", port, Folder::new(), |_| {
        let mut command = Command::new(CRAB);
        command.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &port.to_string()]);
        command.args(["--store-capacity", &KEYS.to_string(), "--log-level", "error"]);
        command
    })
}

/// A server, and what it is asked.
struct Side {
    peer: &'static str,
    port: u16,
    call: Vec<String>,
    /// Whether this is an answer to it, in the form in which redis-cli shows it.
    is_right: fn(&str) -> bool,
    /// What ours must reach beside it.
    goal: Option<Goal>,
    /// It is asked this part of the calls.
    part: u32,
}

impl Side {
    fn of(peer: &'static str, port: u16, call: &[&str], is_right: fn(&str) -> bool) -> Self {
        Self { peer, port, call: call.iter().map(|word| (*word).to_owned()).collect(), is_right, goal: None, part: 1 }
    }

    fn throttle(peer: &'static str, port: u16) -> Self {
        // Not limited, of 101.
        Self::of(peer, port, &["CL.THROTTLE", "key:__rand_int__", "100", "100", "60"], |it| it.starts_with("0\n101\n"))
    }

    /// The same limit as throttlecrab has it: its burst counts the first, and 1 stands for leave. It takes its time with
    /// pipelined calls, and gets fewer of them.
    fn crab(peer: &'static str, port: u16) -> Self {
        let call = ["THROTTLE", "key:__rand_int__", "101", "100", "60"];
        Self { part: 40, ..Self::of(peer, port, &call, |answer| answer.starts_with("1\n101\n")) }
    }

    /// The same limit as a script keeps it: tokens per second, a full bucket, and how many are wanted.
    fn script(peer: &'static str, redis: &RedisServer) -> Self {
        let sha = redis.command(&["SCRIPT", "LOAD", PLAIN]).expect("redis-cli runs");
        let call = ["EVALSHA", &sha, "1", "key:__rand_int__", "1.6667", "101", "1"];
        Self::of(peer, redis.port(), &call, |it| it.starts_with("1\n"))
    }

    fn count(peer: &'static str, port: u16) -> Self {
        let counted = |answer: &str| answer.trim().parse::<u64>().is_ok_and(|count| count > 0);
        Self { goal: Goal::ratio(1.0), ..Self::of(peer, port, &["INCR", "key:__rand_int__"], counted) }
    }

    fn words(&self) -> Vec<&str> {
        self.call.iter().map(String::as_str).collect()
    }

    /// Asks once, and looks at the answer.
    fn prove_it_answers(&self) {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(&self.call).output();
        let output = output.expect("redis-cli runs; `scripts/setup bench` installs it");
        let answer = String::from_utf8_lossy(&output.stdout);
        assert!((self.is_right)(&answer), "{} at {}: {answer}", self.call[0], self.port);
    }
}
