//! Published warm-up schedules of Guava and Sentinel.

use std::time::Duration;

use proptest::prelude::*;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::Check;

use super::subject::Subject;

const START: u64 = 1_000_000_000_000;

fn guava() -> Subject {
    Subject::new(Limit::warm_up("2/s".parse().unwrap(), Duration::from_secs(4), 3).unwrap())
}

/// Acquires in sequence, each as soon as it is admitted; returns the waits in milliseconds.
fn waits(subject: &mut Subject, now: &mut u64, acquires: usize) -> Vec<u64> {
    let acquire = |_| {
        let wait = match subject.check(*now, 1) {
            Check::NotBefore(wait) => wait,
            _ => 0,
        };
        *now += wait;
        assert_eq!(subject.take(*now, 1), Check::Now);
        assert_eq!(wait % 1_000_000, 0);
        wait / 1_000_000
    };
    (0..acquires).map(acquire).collect()
}

/// Guava's own test: 2 permits per second, 4 s of warm-up, cold factor 3.
#[test]
fn guavas_schedule_is_kept_exactly() {
    let (mut subject, mut now) = (guava(), START);
    let schedule = vec![0, 1_375, 1_125, 875, 625, 500, 500, 500];
    assert_eq!(waits(&mut subject, &mut now, 8), schedule);

    // Next step: idle while half of the permits come back (the plateau: still at full speed).
    now += 500_000_000 + 2_000_000_000;
    assert_eq!(waits(&mut subject, &mut now, 6), vec![0, 500, 500, 500, 500, 500]);

    // Idle for the whole warm-up time: cold again.
    now += 500_000_000 + 4_000_000_000;
    assert_eq!(waits(&mut subject, &mut now, 8), schedule);
}

#[test]
fn a_shorter_idle_cools_in_part() {
    let (mut subject, mut now) = (guava(), START);
    waits(&mut subject, &mut now, 20);
    // Three of four seconds: six of eight permits have come back, two of them on the slope.
    now += 500_000_000 + 3_000_000_000;
    assert_eq!(waits(&mut subject, &mut now, 4), vec![0, 875, 625, 500]);
}

/// As in Guava, a large acquire is admitted immediately and the next caller waits for it.
#[test]
fn a_large_cost_delays_the_next_caller() {
    let mut subject = guava();
    assert_eq!(subject.take(START, 8), Check::Now);
    // All four permits of the slope (4 s) and four at the stable gap (2 s).
    assert_eq!(subject.check(START, 1), Check::NotBefore(6_000_000_000));
}

/// Sentinel's cold factor of 3: a cold limiter starts at a third of its rate.
#[test]
fn a_cold_limiter_starts_at_a_third() {
    let limit = Limit::warm_up("1000/s".parse().unwrap(), Duration::from_secs(10), 3).unwrap();
    let (mut subject, mut now, mut first_second) = (Subject::new(limit), START, 0);
    while now < START + 1_000_000_000 {
        match subject.take(now, 1) {
            Check::NotBefore(wait) => now += wait,
            _ => first_second += 1,
        }
    }
    assert!((333..=360).contains(&first_second), "{first_second}");
    while now < START + 11_000_000_000 {
        if let Check::NotBefore(wait) = subject.take(now, 1) {
            now += wait;
        }
    }
    let warm = (0..1_000).filter(|i| subject.take(now + i * 1_000_000, 1) == Check::Now).count();
    assert!((999..=1_000).contains(&warm), "{warm}");
}

/// Times of the next two admissions: the observable state.
fn next_two(subject: &Subject, from: u64) -> (u64, u64) {
    let mut subject = subject.clone();
    let mut now = from;
    let mut next = || {
        if let Check::NotBefore(wait) = subject.check(now, 1) {
            now += wait;
        }
        subject.commit(now, 1, false);
        now
    };
    (next(), next())
}

fn warmed_subjects() -> impl Strategy<Value = (Subject, u64)> {
    let shape = (1..=20u64, 6..=60u64, 2..=10u32, 0..60u64, 0..30_000_000_000u64);
    shape.prop_map(|(count, gaps, factor, acquires, idle)| {
        let rate = sluicegate_engine::Rate::new(count, Duration::from_nanos(7_777_777_777)).unwrap();
        let mut subject = Subject::new(Limit::warm_up(rate, rate.time_for(gaps), factor).unwrap());
        let mut now = START;
        for _ in 0..acquires {
            if let Check::NotBefore(wait) = subject.check(now, 1) {
                now += wait;
            }
            subject.commit(now, 1, false);
        }
        if let Check::NotBefore(wait) = subject.check(now, 1) {
            now += wait;
        }
        (subject, now + idle)
    })
}

proptest! {
    /// Settled without calls in between: neither earlier nor warmer than if the actual cost had been charged.
    #[test]
    fn settling_never_leaves_it_sooner_or_warmer(
        (mut subject, now) in warmed_subjects(), cost in 1..40u64, actual in 0..60u64,
        later in 0..20_000_000_000u64, idle in 0..20_000_000_000u64,
    ) {
        let mut twin = subject.clone();
        let taken = subject.commit(now, cost, false);
        twin.commit(now, actual, false);
        subject.settle(taken, actual, now + later);
        for from in [now + later, now + later + idle, now + later + 60_000_000_000] {
            let ((ours, ours_after), (theirs, theirs_after)) = (next_two(&subject, from), next_two(&twin, from));
            prop_assert!(ours >= theirs, "admitted {} ns sooner", theirs - ours);
            prop_assert!(ours_after >= theirs_after, "admitted {} ns sooner after one", theirs_after - ours_after);
            if ours == theirs {
                prop_assert!(ours_after - ours >= theirs_after - theirs, "warmer");
            }
        }
    }

    #[test]
    fn a_merged_warm_up_is_as_strict_as_either(
        (a, now) in warmed_subjects(), acquires in 0..60u64, idle in 0..20_000_000_000u64,
    ) {
        let mut b = a.fresh();
        let mut at = now;
        for _ in 0..acquires {
            if let Check::NotBefore(wait) = b.check(at, 1) {
                at += wait;
            }
            b.commit(at, 1, false);
        }
        let mut merged = a.clone();
        merged.merge(&b);
        for from in [at, at + idle] {
            let next = next_two(&merged, from);
            for one in [&a, &b] {
                let theirs = next_two(one, from);
                prop_assert!(next.0 >= theirs.0 && next.1 >= theirs.1);
            }
        }
    }
}
