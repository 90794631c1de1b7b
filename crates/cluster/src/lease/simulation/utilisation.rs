//! Utilisation of a limit by a busy cluster, and requests to the store per decision.

use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::{Limit, Limiter, Rate};

use super::*;
use crate::lease::message::{Account, CostRun};

const SKEW: [f64; 4] = [0.70, 0.20, 0.08, 0.02];

/// Utilisation of a limit by the cluster.
#[derive(Debug)]
struct Utilisation {
    /// Admitted amount as a share of the threshold.
    of_threshold: f64,
    /// Admitted amount as a share of the amount that one process serving every caller would admit.
    of_local: f64,
    /// Requests to the store per caller.
    requests: f64,
}

/// Four nodes with a demand of one and a half times the limit. The skew rotates twice a second.
fn saturate(limit: Limit, per_second: u64, seconds: u64) -> Utilisation {
    let params = LeaseParams::from_limits(&[limit]).unwrap();
    let mut simulation = Simulation::new(&params, 7, 4, seconds as f64 + 1.0, FaultRates::default());
    // Start empty: the first burst does not measure the rate.
    let account = Account { node: NodeId(0), epoch: 1, sequence: 1, spent: 0, holding: 0, want: 0, charge: 0 };
    let all = [CostRun { cost: params.capacity(), count: 1 }].into_iter().collect();
    simulation.model.apply(&params, simulation.now, &LeaseRequest { account, takes: all, duration: 0 });
    let start = simulation.now;
    let mut phase = 0;
    while simulation.now < simulation.end {
        for (node, share) in SKEW.iter().enumerate() {
            simulation.set_load((node + phase) % 4, per_second as f64 * 1.5 * share);
        }
        phase += 1;
        simulation.run_to(start + phase as u64 * 500_000);
    }
    let from = start + 1_000_000;
    let used: u64 = simulation.admitted.iter().filter(|one| one.at >= from * 1_000).map(|one| one.cost).sum();
    let local = admitted_by_one(limit, start, from, &simulation.offered);
    let callers = simulation.offered.len() as f64;
    let threshold = (per_second * seconds) as f64;
    let of = Utilisation {
        of_threshold: used as f64 / threshold,
        of_local: used as f64 / local as f64,
        requests: simulation.requests as f64 / callers,
    };
    println!("{limit}: {of:?}");
    of
}

/// The amount the engine admits from `from` on if one process serves the same callers, empty at `start`.
fn admitted_by_one(limit: Limit, start: u64, from: u64, offered: &[u64]) -> u64 {
    let clock = ManualClock::new();
    let mut now = start;
    let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap();
    limiter.check_cost(limit.capacity());
    let mut admitted = 0;
    for &at in offered {
        clock.advance(Duration::from_micros(at - now));
        now = at;
        admitted += u64::from(limiter.check().is_allowed() && at >= from);
    }
    admitted
}

fn bucket(per_second: u64, burst: u64) -> Limit {
    Limit::token_bucket(Rate::per_second(per_second).unwrap(), burst).unwrap()
}

#[test]
fn buckets_of_a_second_are_used_to_98_percent() {
    for (rate, seconds) in [(100, 20), (1_000, 10), (10_000, 5), (100_000, 3), (1_000_000, 1)] {
        let used = saturate(bucket(rate, rate), rate, seconds);
        assert!(used.of_threshold >= 0.98, "{rate}/s: {used:?}");
        assert!(rate < 100_000 || used.requests <= 0.01, "{rate}/s: {used:?}");
    }
}

/// A bucket of a few tokens is not fully used by independent callers even in one process.
#[test]
fn small_buckets_are_used_as_well_as_by_one_process() {
    let cases = [(100, 2, 40), (100, 10, 40), (1_000, 10, 10), (1_000, 50, 10), (10_000, 50, 5), (100_000, 1_000, 3)];
    for (rate, burst, seconds) in cases.into_iter().chain([(1_000_000, 10_000, 1)]) {
        let used = saturate(bucket(rate, burst), rate, seconds);
        assert!(used.of_local >= 0.98, "{rate}/s, burst {burst}: {used:?}");
    }
}

#[test]
fn strict_windows_are_used_as_well_as_by_one_process() {
    for (limit, seconds) in [(100, 33), (1_000, 22), (10_000, 11), (100_000, 4)] {
        let window = Limit::sliding_window(limit, Duration::from_secs(1), 10).unwrap();
        let used = saturate(window, limit, seconds);
        assert!(used.of_local >= 0.98, "{limit} in any second: {used:?}");
    }
}
