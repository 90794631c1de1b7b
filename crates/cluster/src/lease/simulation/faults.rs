//! Never more than the limit, whatever goes wrong.

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::{Limit, Rate};
use sluicegate_testkit::bound::{Pace, aligned_window, any_window, token_bucket};

use super::*;

/// Checks every limit against all that was admitted. Each loss of the store may have given one burst more;
/// once all leases of before it have ended, nothing of it is left.
fn check(world: &World, limits: &[Limit]) -> Result<(), String> {
    let over = (world.last_loss + 2_000_000) * 1_000;
    let after: Vec<_> = world.admitted.iter().filter(|one| one.at > over).copied().collect();
    check_history(&world.admitted, limits, u64::from(world.losses) + 1)?;
    check_history(&after, limits, 1).map_err(|violation| format!("long after a loss, {violation}"))
}

fn check_history(admitted: &[Admitted], limits: &[Limit], bursts: u64) -> Result<(), String> {
    for limit in limits {
        let verdict = match limit {
            Limit::TokenBucket(bucket) => {
                let rate = bucket.rate();
                let pace = Pace::new(rate.count(), rate.period().as_nanos() as u64);
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

fn some_limits(chance: &mut Chance) -> Vec<Limit> {
    let limit = |chance: &mut Chance| {
        let size = [2, 5, 10, 50, 200, 1_000, 5_000][chance.below(7) as usize];
        match chance.below(4) {
            0 | 1 => {
                let rate = [5, 30, 100, 1_000, 10_000][chance.below(5) as usize];
                Limit::token_bucket(Rate::per_second(rate).unwrap(), size)
            }
            2 => Limit::sliding_window(
                size,
                Duration::from_millis(100 + chance.below(1_000)),
                1 + chance.below(12) as u32,
            ),
            _ => Limit::fixed_window(size, Duration::from_millis(100 + chance.below(1_000)), Alignment::Epoch),
        }
        .unwrap()
    };
    let count = if chance.happens(250) { 2 } else { 1 };
    (0..count).map(|_| limit(chance)).collect()
}

/// A few seconds of a small fleet under everything that chance throws at it.
fn run(seed: u64, faults: impl FnOnce(&mut Chance) -> Faults) -> World {
    let mut chance = Chance::new(seed);
    let limits = some_limits(&mut chance);
    let terms = Leasable::of(&limits).unwrap();
    let nodes = 2 + chance.below(5) as usize;
    let faults = faults(&mut chance);
    let mut world = World::new(&terms, chance.next(), nodes, 8.0, faults);
    world.latency = (chance.below(300), 300 + chance.below(12_000));
    world.largest_cost = if chance.happens(300) { terms.capacity().min(5) } else { 1 };
    let mut at = world.now;
    while at < world.end {
        for node in 0..nodes {
            let busy = [0.0, 0.0, 20.0, 200.0, 1_000.0, 3_000.0][chance.below(6) as usize];
            world.load(node, busy);
        }
        at += 500_000;
        world.run_to(at);
    }
    if let Err(violation) = check(&world, &limits) {
        panic!("seed {seed}, {} losses, {faults:?}: {violation}", world.losses);
    }
    world
}

fn any_faults(chance: &mut Chance) -> Faults {
    let mut up_to = |most: u64| if chance.happens(500) { chance.below(most + 1) } else { 0 };
    Faults {
        request_lost: up_to(200),
        answer_lost: up_to(200),
        duplicated: up_to(200),
        delayed: up_to(200),
        crash: up_to(500),
        evict: up_to(500),
        pause: up_to(500),
        cut_off: up_to(500),
        given_back: up_to(200),
        gone: up_to(200),
        losses: 0,
        drift: 1_000,
    }
}

/// `SLUICEGATE_SEEDS` tries more of them.
fn seeds(few: u64) -> u64 {
    std::env::var("SLUICEGATE_SEEDS").ok().and_then(|many| many.parse().ok()).unwrap_or(few)
}

#[test]
fn the_fleet_never_exceeds_the_limit_whatever_goes_wrong() {
    let admitted: u64 = (0..seeds(1_500)).map(|seed| run(seed, any_faults).admitted.len() as u64).sum();
    assert!(admitted > 1_000_000, "{admitted}");
}

#[test]
fn a_loss_of_the_store_costs_one_burst_at_most() {
    let lossy = |chance: &mut Chance| Faults { losses: 1 + chance.below(3) as u32, ..any_faults(chance) };
    let losses: u32 = (0..seeds(1_000)).map(|seed| run(1 << 40 | seed, lossy).losses).sum();
    assert!(losses > 1_000, "{losses}");
}

#[test]
fn without_faults_nothing_is_lost_and_nothing_is_left_out() {
    for seed in 0..200 {
        let mut world = run(2 << 40 | seed, |_| Faults { drift: 1_000, ..Faults::default() });
        for node in 0..world.nodes.len() {
            world.load(node, 0.0);
        }
        world.end += 1_000_000;
        world.run_to(world.end);
        assert_eq!(world.ledger.out(), 0, "seed {seed}: idle nodes give back what they hold");
        assert!(world.nodes.iter().all(|node| node.holder.is_idle(Timestamp::from_nanos(u64::MAX))));
    }
}
