//! The limit holds under any fault.

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, Rate};
use sluicegate_testkit::bound::{ExactRate, aligned_window, any_window, token_bucket};

use super::*;

/// Checks every limit against all admissions. Each store loss may have admitted one extra burst;
/// once all leases from before it have expired, no effect remains.
fn check(simulation: &Simulation, limits: &[Limit]) -> Result<(), String> {
    let over = (simulation.last_loss + 2_000_000) * 1_000;
    let after: Vec<_> = simulation.admitted.iter().filter(|one| one.at > over).copied().collect();
    check_history(&simulation.admitted, limits, u64::from(simulation.losses) + 1)?;
    check_history(&after, limits, 1).map_err(|violation| format!("long after a loss, {violation}"))
}

fn check_history(admitted: &[AdmissionEvent], limits: &[Limit], bursts: u64) -> Result<(), String> {
    for limit in limits {
        let verdict = match limit {
            Limit::TokenBucket(bucket) => {
                let rate = bucket.rate();
                let pace = ExactRate::new(rate.count(), rate.period().as_nanos() as u64);
                token_bucket(admitted, pace, bucket.burst() * bursts)
            }
            Limit::SlidingWindow(window) => {
                any_window(admitted, window.limit() * bursts, window.window().as_nanos() as u64)
            }
            Limit::FixedWindow(window) => {
                aligned_window(admitted, window.limit() * bursts, window.window().as_nanos() as u64, 0)
            }
            _ => Ok(()),
        };
        verdict.map_err(|violation| format!("{limit}: {violation}"))?;
    }
    Ok(())
}

fn some_limits(rng: &mut SplitMix64) -> Vec<Limit> {
    let limit = |rng: &mut SplitMix64| {
        let size = [2, 5, 10, 50, 200, 1_000, 5_000][rng.below(7) as usize];
        match rng.below(4) {
            0 | 1 => {
                let rate = [5, 30, 100, 1_000, 10_000][rng.below(5) as usize];
                Limit::token_bucket(Rate::per_second(rate).unwrap(), size)
            }
            2 => Limit::sliding_window(size, Duration::from_millis(100 + rng.below(1_000)), 1 + rng.below(12) as u32),
            _ => Limit::fixed_window(size, Duration::from_millis(100 + rng.below(1_000)), Alignment::Epoch),
        }
        .unwrap()
    };
    let count = if rng.happens(250) { 2 } else { 1 };
    (0..count).map(|_| limit(rng)).collect()
}

/// A few seconds of a small cluster under random faults.
fn run(seed: u64, faults: impl FnOnce(&mut SplitMix64) -> FaultRates) -> Simulation {
    let mut rng = SplitMix64::new(seed);
    let limits = some_limits(&mut rng);
    let params = LeaseParams::from_limits(&limits).unwrap();
    let nodes = 2 + rng.below(5) as usize;
    let faults = faults(&mut rng);
    let mut simulation = Simulation::new(&params, rng.bits(), nodes, 8.0, faults);
    simulation.latency = (rng.below(300), 300 + rng.below(12_000));
    simulation.max_cost = if rng.happens(300) { params.capacity().min(5) } else { 1 };
    let mut at = simulation.now;
    while at < simulation.end {
        for node in 0..nodes {
            let busy = [0.0, 0.0, 20.0, 200.0, 1_000.0, 3_000.0][rng.below(6) as usize];
            simulation.set_load(node, busy);
        }
        at += 500_000;
        simulation.run_to(at);
    }
    if let Err(violation) = check(&simulation, &limits) {
        panic!("seed {seed}, {} losses, {faults:?}: {violation}", simulation.losses);
    }
    simulation
}

fn any_faults(rng: &mut SplitMix64) -> FaultRates {
    let mut up_to = |max: u64| if rng.happens(500) { rng.below(max + 1) } else { 0 };
    FaultRates {
        request_lost: up_to(200),
        reply_lost: up_to(200),
        duplicated: up_to(200),
        delayed: up_to(200),
        crash: up_to(500),
        evict: up_to(500),
        pause: up_to(500),
        partition: up_to(500),
        returned: up_to(200),
        cancelled: up_to(200),
        losses: 0,
        drift: 1_000,
    }
}

/// Number of seeds; `SLUICEGATE_SEEDS` overrides it.
fn seeds(few: u64) -> u64 {
    std::env::var("SLUICEGATE_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(few)
}

#[test]
fn the_cluster_never_exceeds_the_limit_under_any_fault() {
    let admitted: u64 = (0..seeds(1_500)).map(|seed| run(seed, any_faults).admitted.len() as u64).sum();
    assert!(admitted > 1_000_000, "{admitted}");
}

#[test]
fn a_store_loss_admits_at_most_one_extra_burst() {
    let lossy = |rng: &mut SplitMix64| FaultRates { losses: 1 + rng.below(3) as u32, ..any_faults(rng) };
    let losses: u32 = (0..seeds(1_000)).map(|seed| run(1 << 40 | seed, lossy).losses).sum();
    assert!(losses > 1_000, "{losses}");
}

#[test]
fn without_faults_nothing_is_lost_or_left_outstanding() {
    for seed in 0..200 {
        let mut simulation = run(2 << 40 | seed, |_| FaultRates { drift: 1_000, ..FaultRates::default() });
        for node in 0..simulation.nodes.len() {
            simulation.set_load(node, 0.0);
        }
        simulation.end += 1_000_000;
        simulation.run_to(simulation.end);
        assert_eq!(simulation.model.outstanding(), 0, "seed {seed}: idle nodes return their slices");
        assert!(simulation.nodes.iter().all(|node| node.holder.is_idle(Timestamp::from_nanos(u64::MAX))));
    }
}
