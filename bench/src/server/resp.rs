//! Decisions over the Redis protocol: `resp-p1` and `resp-p16`.

use std::fs;
use std::process::Command;

use sluicegate_testkit::servers::RedisServer;

use crate::cluster::plain::PLAIN;
use crate::programs::program::{Program, free_port};
use crate::programs::redis_benchmark::BenchmarkLoad;
use crate::programs::rounds::medians;
use crate::programs::sluicegate;
use crate::programs::temp_dir::TempDir;
use crate::report::{Goal, Row, Unit};
use crate::runner::Scale;

const KEYS: u32 = 1_000_000;
/// Module built by `scripts/redis-cell`.
const REDIS_CELL_MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/redis-cell-0.2.2.so");
/// Server built by `scripts/throttlecrab`.
const THROTTLECRAB_SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/bench/throttlecrab-server-0.4.40");

/// One busy-polling thread, as Redis has one thread; a second row measures the default settings.
pub(crate) fn one_at_a_time(scale: Scale) -> Vec<Row> {
    compare("resp-p1", "threads: 1, busy_poll: 50us", Some("resp-p1-usual"), 1, scale.size(500_000), scale)
}

pub(crate) fn sixteen_at_a_time(scale: Scale) -> Vec<Row> {
    compare("resp-p16", "", None, 16, scale.size(2_000_000), scale)
}

/// Measures Sluicegate with `settings` against the peers; with a `default_case`, also with default settings.
fn compare(
    case: &'static str,
    settings: &str,
    default_case: Option<&'static str>,
    pipelined: u32,
    calls: u32,
    scale: Scale,
) -> Vec<Row> {
    let start = |settings: &str| {
        let settings = settings.to_owned();
        sluicegate::run(move |port, _| format!("server: {{ resp: 127.0.0.1:{port}, {settings} }}\n"))
    };
    let (ours, default) = (start(settings), default_case.map(|_| start("")));
    let redis = RedisServer::start().expect("Redis starts");
    let cell = fs::exists(REDIS_CELL_MODULE)
        .unwrap_or(false)
        .then(|| RedisServer::start_with(&["--loadmodule", REDIS_CELL_MODULE]));
    let cell = cell.map(|started| started.expect("Redis starts with redis-cell"));
    let throttlecrab = fs::exists(THROTTLECRAB_SERVER).unwrap_or(false).then(start_throttlecrab);
    let script = RedisServer::start().expect("Redis starts");
    let mut subjects = vec![RespSubject::cl_throttle("", ours.port()), RespSubject::incr("Redis INCR", redis.port())];
    subjects.extend(cell.as_ref().map(|redis| RespSubject::cl_throttle("redis-cell 0.2.2", redis.port())));
    subjects.extend(throttlecrab.as_ref().map(|server| RespSubject::throttle("throttlecrab 0.4.40", server.port())));
    subjects.push(RespSubject::script("usual Lua script", &script));
    subjects.extend(default.as_ref().map(|program| RespSubject::cl_throttle("itself, defaults", program.port())));
    let load = BenchmarkLoad { clients: 50, pipelined, keys: KEYS, calls };
    for subject in &subjects {
        subject.assert_valid_reply();
        // Warm-up: creates most of the keys.
        BenchmarkLoad { pipelined: 16, calls: KEYS / subject.call_divisor, ..load }
            .per_second(subject.port, &subject.call_args());
    }
    let rounds = if scale.quick { 3 } else { 5 };
    let figures = medians(rounds, &subjects, |subject| {
        BenchmarkLoad { calls: calls / subject.call_divisor, ..load }.per_second(subject.port, &subject.call_args())
    });
    subjects.iter().for_each(RespSubject::assert_valid_reply);
    let row = |case, ours, (subject, theirs): (&RespSubject, &f64), goal| Row {
        case,
        peer: subject.peer,
        unit: Unit::PerSecond,
        ours,
        theirs: *theirs,
        goal,
    };
    let peers = || subjects.iter().zip(&figures).skip(1);
    let mut rows: Vec<Row> = peers().map(|it| row(case, figures[0], it, it.0.goal)).collect();
    if let (Some(case), Some(default)) = (default_case, figures.last()) {
        rows.extend(peers().next().map(|it| row(case, *default, it, None)));
    }
    rows
}

/// Starts throttlecrab's server with the Redis protocol only and capacity for all keys.
fn start_throttlecrab() -> Program {
    let port = free_port();
    Program::start("throttlecrab", port, TempDir::new(), |_| {
        let mut command = Command::new(THROTTLECRAB_SERVER);
        command.args(["--redis", "--redis-host", "127.0.0.1", "--redis-port", &port.to_string()]);
        command.args(["--store-capacity", &KEYS.to_string(), "--log-level", "error"]);
        command
    })
}

/// Server and the command to send to it.
struct RespSubject {
    peer: &'static str,
    port: u16,
    call: Vec<String>,
    /// Checks the reply in the output format of redis-cli.
    is_valid_reply: fn(&str) -> bool,
    /// Goal of Sluicegate against this server.
    goal: Option<Goal>,
    /// Divisor of the number of calls, for slow servers.
    call_divisor: u32,
}

impl RespSubject {
    fn new(peer: &'static str, port: u16, call: &[&str], is_valid_reply: fn(&str) -> bool) -> Self {
        Self {
            peer,
            port,
            call: call.iter().map(|word| (*word).to_owned()).collect(),
            is_valid_reply,
            goal: None,
            call_divisor: 1,
        }
    }

    fn cl_throttle(peer: &'static str, port: u16) -> Self {
        // Not limited, limit 101.
        let call = ["CL.THROTTLE", "key:__rand_int__", "100", "100", "60"];
        Self::new(peer, port, &call, |reply| reply.starts_with("0\n101\n"))
    }

    /// The same limit for throttlecrab: its burst includes the first request, and 1 means allowed. It is slow with
    /// pipelined calls and therefore gets fewer of them.
    fn throttle(peer: &'static str, port: u16) -> Self {
        let call = ["THROTTLE", "key:__rand_int__", "101", "100", "60"];
        Self { call_divisor: 40, ..Self::new(peer, port, &call, |reply| reply.starts_with("1\n101\n")) }
    }

    /// The same limit as a script: tokens per second, burst, requested tokens.
    fn script(peer: &'static str, redis: &RedisServer) -> Self {
        let sha = redis.command(&["SCRIPT", "LOAD", PLAIN]).expect("redis-cli runs");
        let call = ["EVALSHA", &sha, "1", "key:__rand_int__", "1.6667", "101", "1"];
        Self::new(peer, redis.port(), &call, |reply| reply.starts_with("1\n"))
    }

    fn incr(peer: &'static str, port: u16) -> Self {
        let is_count = |reply: &str| reply.trim().parse::<u64>().is_ok_and(|count| count > 0);
        Self { goal: Goal::ratio(1.0), ..Self::new(peer, port, &["INCR", "key:__rand_int__"], is_count) }
    }

    fn call_args(&self) -> Vec<&str> {
        self.call.iter().map(String::as_str).collect()
    }

    /// Sends the command once and checks the reply.
    fn assert_valid_reply(&self) {
        let output = Command::new("redis-cli").args(["-p", &self.port.to_string()]).args(&self.call).output();
        let output = output.expect("redis-cli runs; `scripts/setup bench` installs it");
        let reply = String::from_utf8_lossy(&output.stdout);
        assert!((self.is_valid_reply)(&reply), "{} at port {}: {reply}", self.call[0], self.port);
    }
}
