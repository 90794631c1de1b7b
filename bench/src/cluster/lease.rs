//! Decisions from leased shares of a limit (`mode: lease`): `lease-hot-key` and `lease-commands`.

use std::thread;
use std::time::{Duration, Instant};

use sluicegate::rule::ClusterMode;
use sluicegate_testkit::servers::RedisServer;

use super::node::{ClusterBucket, Node, NodeProcess, NodeTotals};
use super::plain::PlainScript;
use crate::programs::redis_benchmark::BenchmarkLoad;
use crate::report::{Goal, Row, Unit};
use crate::runner::{Scale, best_of};

const NODES: usize = 4;

/// Less than the nodes request, so that they exhaust the limit.
const SCARCE: ClusterBucket = ClusterBucket { per_second: 1_000_000, burst: 100_000 };
/// More than the nodes can request.
const PLENTY: ClusterBucket = ClusterBucket { per_second: 100_000_000, burst: 100_000_000 };

/// Four processes on one key, with a limit that refuses requests and with one that does not.
pub(crate) fn hot_key(scale: Scale) -> Vec<Row> {
    let duration = Duration::from_millis(scale.size(1_000).into());
    let peer_load = BenchmarkLoad { clients: 50, pipelined: 1, keys: 1, calls: scale.size(40_000) };
    let server = RedisServer::start().expect("Redis starts");
    let plain = PlainScript::new(&server, SCARCE);
    let mut closest = ClusterRun::default();
    let [limited, unlimited, theirs] = best_of(
        scale.rounds().div_ceil(2),
        [
            &mut || {
                let run = ClusterRun::run(&server, SCARCE, duration);
                assert!(run.admitted < run.decisions, "no request was refused: the measurement is invalid");
                if run.utilization() > closest.utilization() {
                    closest = run;
                }
                run.nanos_each()
            },
            &mut || {
                let run = ClusterRun::run(&server, PLENTY, duration);
                assert!(run.admitted == run.decisions, "a request was refused: the measurement is invalid");
                run.nanos_each()
            },
            &mut || plain.nanos_each(peer_load),
        ],
    );
    let row = |peer, ours, theirs, goal| Row { case: "lease-hot-key", peer, unit: Unit::PerSecond, ours, theirs, goal };
    let [limited, unlimited, theirs] = [limited, unlimited, theirs].map(|nanos| 1e9 / nanos);
    let [admitted, max] = [closest.admitted as f64, closest.max_admitted].map(|count| count / closest.seconds);
    vec![
        row("plain script, 50 clients", limited, theirs, Goal::ratio(50.0)),
        row("the same, no refusals", unlimited, theirs, None),
        row("admitted, maximum allowed", admitted, max, None),
    ]
}

/// Totals of all nodes in one run.
#[derive(Clone, Copy, Default)]
struct ClusterRun {
    decisions: u64,
    admitted: u64,
    /// Upper bound of admitted requests.
    max_admitted: f64,
    seconds: f64,
}

impl ClusterRun {
    /// Runs all nodes and asserts that they do not admit more than the limit allows.
    fn run(server: &RedisServer, bucket: ClusterBucket, duration: Duration) -> Self {
        server.command(&["FLUSHALL"]).expect("redis-cli runs");
        let mut nodes = [(); NODES].map(|()| NodeProcess::start(server.port(), bucket, duration));
        nodes.iter_mut().for_each(NodeProcess::wait_until_ready);
        let started = Instant::now();
        nodes.iter_mut().for_each(NodeProcess::begin);
        let totals = nodes.each_mut().map(NodeProcess::wait_for_totals);
        let seconds = started.elapsed().as_secs_f64();
        let sum = |field: fn(&NodeTotals) -> u64| totals.iter().map(field).sum::<u64>();
        let (decisions, admitted) = (sum(|node| node.decisions), sum(|node| node.admitted));
        let max_admitted = bucket.burst as f64 + bucket.per_second as f64 * seconds;
        assert!(admitted as f64 <= max_admitted, "{admitted} admitted; the maximum is {max_admitted}");
        Self { decisions, admitted, max_admitted, seconds }
    }

    fn nanos_each(&self) -> f64 {
        self.seconds * 1e9 / self.decisions as f64
    }

    /// Admitted requests as a share of the upper bound.
    fn utilization(&self) -> f64 {
        if self.max_admitted > 0.0 { self.admitted as f64 / self.max_admitted } else { 0.0 }
    }
}

/// Decisions per second, of all nodes together.
const DECISIONS_PER_SECOND: u32 = 100_000;
/// Limit equal to the request rate.
const MATCHING: ClusterBucket =
    ClusterBucket { per_second: DECISIONS_PER_SECOND as u64, burst: DECISIONS_PER_SECOND as u64 };

/// Store commands per decision for four nodes at a constant total rate.
pub(crate) fn commands(scale: Scale) -> Vec<Row> {
    let server = RedisServer::start().expect("Redis starts");
    let nodes = [(); NODES].map(|()| Node::start(server.port(), MATCHING.rule(ClusterMode::Lease)));
    let rounds = (0..3).filter_map(|_| commands_per_decision(&server, &nodes, scale.size(2_000)));
    let ours = rounds.reduce(f64::min).expect("at least one round reaches the target rate");
    vec![Row {
        case: "lease-commands",
        peer: "one command per decision",
        unit: Unit::Commands,
        ours,
        theirs: 1.0,
        goal: Goal::ratio(0.01),
    }]
}

/// Script calls per decision; `None` if the machine was too busy to reach the target rate.
fn commands_per_decision(server: &RedisServer, nodes: &[Node; NODES], milliseconds: u32) -> Option<f64> {
    let before = script_calls(server);
    let each_millisecond = DECISIONS_PER_SECOND / 1_000;
    let (started, mut admitted) = (Instant::now(), 0);
    for millisecond in 0..milliseconds {
        let due = started + Duration::from_millis(millisecond.into());
        thread::sleep(due.saturating_duration_since(Instant::now()));
        for index in 0..each_millisecond {
            admitted += u32::from(nodes[index as usize % NODES].admits());
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let decisions = f64::from(milliseconds * each_millisecond);
    assert!(f64::from(admitted) > 0.98 * decisions, "only {admitted} of {decisions} requests admitted");
    let calls = script_calls(server) - before;
    (decisions > 0.9 * f64::from(DECISIONS_PER_SECOND) * seconds).then_some(calls / decisions)
}

/// Number of script calls the server has run: connected nodes send no other commands.
fn script_calls(server: &RedisServer) -> f64 {
    let info = server.command(&["INFO", "commandstats"]).expect("redis-cli runs");
    let calls = info.lines().filter_map(|line| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse::<f64>().ok()?;
        command.starts_with("eval").then_some(calls)
    });
    calls.sum()
}
