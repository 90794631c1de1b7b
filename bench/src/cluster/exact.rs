//! Decisions made in the store: `exact-64` and `exact-512`.

use std::net::Ipv4Addr;
use std::time::Instant;

use sluicegate::rule::{Attribute, ClusterMode, Request, Rule};
use sluicegate_testkit::servers::RedisServer;
use tokio::runtime::Runtime;

use super::node::{Bucket, Node};
use super::plain::Plain;
use crate::programs::redis_benchmark::Asking;
use crate::report::{Goal, Row, Unit};
use crate::runner::{Scale, best_of};

/// Clients, each with a bucket.
const CLIENTS: u32 = 10_000;
/// Never empty here, and never full again while the case runs.
const BUCKET: Bucket = Bucket { per_second: 1, burst: 10_000 };

pub(crate) fn callers_64(scale: Scale) -> Vec<Row> {
    let peer = Asking { clients: 50, pipelined: 1, keys: CLIENTS, calls: scale.size(40_000) };
    beside("exact-64", "plain script, 50 clients", 64, scale.size(80_000), peer, Goal::ratio(2.0), scale)
}

pub(crate) fn callers_512(scale: Scale) -> Vec<Row> {
    let peer = Asking { clients: 50, pipelined: 16, keys: CLIENTS, calls: scale.size(80_000) };
    beside(
        "exact-512",
        "plain script, 50 clients, 16 pipelined",
        512,
        scale.size(120_000),
        peer,
        Goal::ratio(1.0),
        scale,
    )
}

fn beside(
    case: &'static str,
    peer: &'static str,
    callers: u32,
    decisions: u32,
    asking: Asking,
    goal: Option<Goal>,
    scale: Scale,
) -> Vec<Row> {
    let server = RedisServer::start().expect("a Redis");
    let plain = Plain::new(&server, BUCKET);
    let rule = Rule { key: vec![Attribute::ClientIp.into()], ..BUCKET.rule(ClusterMode::Exact) };
    let node = Node::start(server.port(), rule);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let [ours, theirs] = best_of(
        scale.rounds(),
        [&mut || nanos_each(&runtime, &node, callers, decisions / callers), &mut || plain.nanos_each(asking)],
    );
    vec![Row { case, peer, unit: Unit::PerSecond, ours: 1e9 / ours, theirs: 1e9 / theirs, goal }]
}

/// Nanoseconds per decision of callers that ask all at once, each one decision after the other.
fn nanos_each(runtime: &Runtime, node: &Node, callers: u32, decisions: u32) -> f64 {
    let started = Instant::now();
    let asking: Vec<_> = (0..callers)
        .map(|caller| {
            let sluice = node.sluice.clone();
            runtime.spawn(async move {
                for nth in 0..decisions {
                    let client = (caller * decisions + nth).wrapping_mul(7_919) % CLIENTS;
                    let client = Ipv4Addr::from_bits(0x0a00_0000 + client);
                    // The request is looked at here and not held across the wait.
                    let admission = sluice.admit(&Request::new("GET", "/").with_client_ip(client));
                    let outcome = admission.await;
                    assert!(outcome.is_admitted() && !outcome.is_degraded(), "all are admitted, by the store");
                }
            })
        })
        .collect();
    for caller in asking {
        runtime.block_on(caller).expect("all are admitted");
    }
    started.elapsed().as_nanos() as f64 / f64::from(callers * decisions)
}
