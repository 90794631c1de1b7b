//! Decisions from slices of a limit: `lease-hot-key` and `lease-commands`.

use std::thread;
use std::time::{Duration, Instant};

use sluicegate::rule::ClusterMode;
use sluicegate_testkit::servers::RedisServer;

use super::node::{Bucket, Done, Node, NodeProcess};
use super::plain::Plain;
use crate::programs::redis_benchmark::Asking;
use crate::report::{Goal, Row, Unit};
use crate::runner::{Scale, best_of};

const NODES: usize = 4;

/// Less than the nodes ask for, so that they get the whole of it and nothing beyond.
const SCARCE: Bucket = Bucket { per_second: 1_000_000, burst: 100_000 };
/// More than the nodes can ask for.
const PLENTY: Bucket = Bucket { per_second: 100_000_000, burst: 100_000_000 };

/// Four processes on one key, where the limit holds them back and where it does not.
pub(crate) fn hot_key(scale: Scale) -> Vec<Row> {
    let lasting = Duration::from_millis(scale.size(1_000).into());
    let asking = Asking { clients: 50, pipelined: 1, keys: 1, calls: scale.size(40_000) };
    let server = RedisServer::start().expect("a Redis");
    let plain = Plain::new(&server, SCARCE);
    let mut fullest = Fleet::default();
    let [held_back, free, theirs] = best_of(
        scale.rounds().div_ceil(2),
        [
            &mut || {
                let fleet = Fleet::run(&server, SCARCE, lasting);
                assert!(fleet.admitted < fleet.decisions, "the limit holds nobody back: the case measures nothing");
                if fleet.used() > fullest.used() {
                    fullest = fleet;
                }
                fleet.nanos_each()
            },
            &mut || {
                let fleet = Fleet::run(&server, PLENTY, lasting);
                assert!(fleet.admitted == fleet.decisions, "nobody should be refused: the case measures nothing");
                fleet.nanos_each()
            },
            &mut || plain.nanos_each(asking),
        ],
    );
    let row = |peer, ours, theirs, goal| Row { case: "lease-hot-key", peer, unit: Unit::PerSecond, ours, theirs, goal };
    let [held_back, free, theirs] = [held_back, free, theirs].map(|nanos| 1e9 / nanos);
    let [admitted, most] = [fullest.admitted as f64, fullest.most].map(|count| count / fullest.seconds);
    vec![
        row("plain script, 50 clients", held_back, theirs, Goal::ratio(50.0)),
        row("the same; ours never refused", free, theirs, None),
        row("let in, beside the most that may be", admitted, most, None),
    ]
}

/// What four nodes did together.
#[derive(Clone, Copy, Default)]
struct Fleet {
    decisions: u64,
    admitted: u64,
    /// No more may have been let in.
    most: f64,
    seconds: f64,
}

impl Fleet {
    /// Runs it, and proves that no more was let in than the limit allows.
    fn run(server: &RedisServer, bucket: Bucket, lasting: Duration) -> Self {
        server.command(&["FLUSHALL"]).expect("redis-cli runs");
        let mut nodes = [(); NODES].map(|()| NodeProcess::start(server.port(), bucket, lasting));
        nodes.iter_mut().for_each(NodeProcess::ready);
        let started = Instant::now();
        nodes.iter_mut().for_each(NodeProcess::begin);
        let done = nodes.each_mut().map(NodeProcess::done);
        let seconds = started.elapsed().as_secs_f64();
        let sum = |of: fn(&Done) -> u64| done.iter().map(of).sum::<u64>();
        let (decisions, admitted) = (sum(|done| done.decisions), sum(|done| done.admitted));
        let most = bucket.burst as f64 + bucket.per_second as f64 * seconds;
        assert!(admitted as f64 <= most, "{admitted} let in, and no more than {most} may be");
        Self { decisions, admitted, most, seconds }
    }

    fn nanos_each(&self) -> f64 {
        self.seconds * 1e9 / self.decisions as f64
    }

    /// How much of what may be let in was.
    fn used(&self) -> f64 {
        if self.most > 0.0 { self.admitted as f64 / self.most } else { 0.0 }
    }
}

/// Decisions per second, of all nodes together.
const PACE: u32 = 100_000;
/// As much as is asked for.
const ENOUGH: Bucket = Bucket { per_second: PACE as u64, burst: PACE as u64 };

/// What the store is bothered with when four nodes together decide at a steady pace.
pub(crate) fn commands(scale: Scale) -> Vec<Row> {
    let server = RedisServer::start().expect("a Redis");
    let nodes = [(); NODES].map(|()| Node::start(server.port(), ENOUGH.rule(ClusterMode::Lease)));
    let rounds = (0..3).filter_map(|_| commands_each(&server, &nodes, scale.size(2_000)));
    let ours = rounds.reduce(f64::min).expect("a round in which this machine keeps the pace");
    vec![Row {
        case: "lease-commands",
        peer: "one command per decision",
        unit: Unit::Commands,
        ours,
        theirs: 1.0,
        goal: Goal::ratio(0.01),
    }]
}

/// Calls of scripts per decision; `None` if something else kept this machine from the pace.
fn commands_each(server: &RedisServer, nodes: &[Node; NODES], milliseconds: u32) -> Option<f64> {
    let before = script_calls(server);
    let each_millisecond = PACE / 1_000;
    let (started, mut admitted) = (Instant::now(), 0);
    for millisecond in 0..milliseconds {
        let due = started + Duration::from_millis(millisecond.into());
        thread::sleep(due.saturating_duration_since(Instant::now()));
        for nth in 0..each_millisecond {
            admitted += u32::from(nodes[nth as usize % NODES].admits());
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let decisions = f64::from(milliseconds * each_millisecond);
    assert!(f64::from(admitted) > 0.98 * decisions, "only {admitted} of {decisions} let in");
    let calls = script_calls(server) - before;
    (decisions > 0.9 * f64::from(PACE) * seconds).then_some(calls / decisions)
}

/// How many calls of scripts the server has run: all that nodes send once they are connected.
fn script_calls(server: &RedisServer) -> f64 {
    let told = server.command(&["INFO", "commandstats"]).expect("redis-cli runs");
    let calls = told.lines().filter_map(|line| {
        let (command, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse::<f64>().ok()?;
        command.starts_with("eval").then_some(calls)
    });
    calls.sum()
}
