//! Decisions in the store (`mode: exact`): `exact-64` and `exact-512`.

use std::net::Ipv4Addr;
use std::time::Instant;

use sluicegate::rule::{Attribute, ClusterMode, Request, Rule};
use sluicegate_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use super::node::{ClusterBucket, Node};
use super::plain::PlainScript;
use crate::programs::redis_benchmark::BenchmarkLoad;
use crate::report::{Goal, Row, Unit};
use crate::runner::{Scale, best_of};

/// Number of clients, each with its own bucket.
const CLIENTS: u32 = 10_000;
/// Bucket that is never empty and does not become full again during the case.
const BUCKET: ClusterBucket = ClusterBucket { per_second: 1, burst: 10_000 };

pub(crate) fn callers_64(scale: Scale) -> Vec<Row> {
    let peer = BenchmarkLoad { clients: 50, pipelined: 1, keys: CLIENTS, calls: scale.size(40_000) };
    compare("exact-64", "plain script, 50 clients", 64, scale.size(80_000), peer, Goal::ratio(2.0), scale)
}

pub(crate) fn callers_512(scale: Scale) -> Vec<Row> {
    let peer = BenchmarkLoad { clients: 50, pipelined: 16, keys: CLIENTS, calls: scale.size(80_000) };
    compare(
        "exact-512",
        "plain script, 50 clients, 16 pipelined",
        512,
        scale.size(120_000),
        peer,
        Goal::ratio(1.0),
        scale,
    )
}

fn compare(
    case: &'static str,
    peer: &'static str,
    callers: u32,
    decisions: u32,
    peer_load: BenchmarkLoad,
    goal: Option<Goal>,
    scale: Scale,
) -> Vec<Row> {
    let server = RedisServer::start().expect("Redis starts");
    let plain = PlainScript::new(&server, BUCKET);
    let rule = Rule { key: vec![Attribute::ClientIp.into()], ..BUCKET.rule(ClusterMode::Exact) };
    let node = Node::start(server.port(), rule);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("runtime builds");
    let [ours, theirs] = best_of(
        scale.rounds(),
        [&mut || nanos_each(&runtime, &node, callers, decisions / callers), &mut || plain.nanos_each(peer_load)],
    );
    vec![Row { case, peer, unit: Unit::PerSecond, ours: 1e9 / ours, theirs: 1e9 / theirs, goal }]
}

/// Nanoseconds per decision for concurrent callers, each with sequential decisions.
fn nanos_each(runtime: &Runtime, node: &Node, callers: u32, decisions: u32) -> f64 {
    let started = Instant::now();
    let tasks: Vec<_> = (0..callers)
        .map(|caller| {
            let sluice = node.sluice.clone();
            runtime.spawn(async move {
                for index in 0..decisions {
                    let client = (caller * decisions + index).wrapping_mul(7_919) % CLIENTS;
                    let client = Ipv4Addr::from_bits(0x0a00_0000 + client);
                    // The request is evaluated here and not held across the await.
                    let admission = sluice.admit(&Request::new("GET", "/").with_client_ip(client));
                    let outcome = admission.await;
                    assert!(outcome.is_admitted() && !outcome.is_degraded(), "the store admits every request");
                }
            })
        })
        .collect();
    for task in tasks {
        runtime.block_on(task).expect("every decision admits");
    }
    started.elapsed().as_nanos() as f64 / f64::from(callers * decisions)
}
