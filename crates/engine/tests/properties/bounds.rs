//! Every algorithm keeps its bound: random arrivals, random costs, clocks that stall, jump and step back.
//!
//! The checkers come from the testkit and see only the admissions. An algorithm that stays in its window when the
//! clock steps back is checked in effective time.

use proptest::prelude::*;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::{Alignment, Check};
use sluicegate_engine::time::EPOCH_UNIX_SECONDS;
use sluicegate_testkit::arrivals::{Arrival, ArrivalScale, ArrivalStream, Pattern};
use sluicegate_testkit::bound::{self, AdmissionEvent, HoldInterval, Violation};

use super::subject::{Subject, holdable, nanos, pace, subjects, with_arrivals, with_two_orderly_runs};

/// Plays the arrivals and returns the admissions; for pacing limits, with their departure times.
fn admit_all(subject: &mut Subject, arrivals: impl IntoIterator<Item = Arrival>) -> Vec<AdmissionEvent> {
    let mut admitted = Vec::new();
    for one in arrivals {
        let delay = match subject.take(one.at, one.cost) {
            Check::Now => 0,
            Check::After(delay) => delay,
            _ => continue,
        };
        if one.cost > 0 {
            admitted.push(AdmissionEvent { at: one.at + delay, cost: one.cost });
        }
    }
    admitted
}

/// Checks the documented guarantee of a limit against a history.
pub(crate) fn keeps_its_bound(limit: &Limit, history: &[AdmissionEvent]) -> Result<(), Violation> {
    let effective = bound::effective(history);
    match limit {
        Limit::TokenBucket(bucket) => bound::token_bucket(history, pace(bucket.rate()), bucket.burst()),
        Limit::Bandwidth(bucket) => bound::token_bucket(history, pace(bucket.rate()), bucket.burst()),
        Limit::LeakyBucket(bucket) => bound::departures(history, pace(bucket.rate())),
        Limit::FixedWindow(fixed) => {
            let window = nanos(fixed.window());
            bound::any_window(&effective, fixed.limit().saturating_mul(2), window)?;
            match fixed.alignment() {
                Alignment::FirstUse => Ok(()),
                Alignment::Epoch => {
                    let phase = (u128::from(EPOCH_UNIX_SECONDS) * 1_000_000_000 % u128::from(window)) as u64;
                    bound::aligned_window(&effective, fixed.limit(), window, phase)
                }
            }
        }
        Limit::SlidingWindow(sliding) => bound::any_window(&effective, sliding.limit(), nanos(sliding.window())),
        Limit::InterpolatedWindow(two) => {
            // Never twice the limit, though almost; a window that starts on a boundary is exact.
            let window = nanos(two.window());
            bound::any_window(&effective, 2 * two.limit() - 1, window)?;
            bound::aligned_window(&effective, two.limit(), window, 0)
        }
        Limit::SlidingLog(log) => bound::any_window(history, log.limit(), nanos(log.window())),
        Limit::Concurrency(permits) => {
            let total = history.iter().map(|entry| u128::from(entry.cost)).sum::<u128>();
            let allowed = u128::from(permits.limit());
            if total <= allowed { Ok(()) } else { Err(Violation { from: 0, to: 0, admitted: total, allowed }) }
        }
        Limit::WarmUp(warm) => bound::departures(history, pace(warm.rate())),
        other => panic!("no bound is defined for {other}: add it"),
    }
}

proptest! {
    #[test]
    fn every_mode_keeps_its_bound((mut subject, arrivals) in with_arrivals(subjects())) {
        let history = admit_all(&mut subject, arrivals);
        if let Err(violation) = keeps_its_bound(&subject.limit, &history) {
            prop_assert!(false, "{}: {}", subject.limit, violation);
        }
    }

    /// Held permits never exceed the limit, in any order of release.
    #[test]
    fn held_permits_never_exceed_the_limit(
        (mut subject, arrivals, _) in with_two_orderly_runs(holdable()),
        give_back in prop::collection::vec(any::<Option<prop::sample::Index>>(), 150),
    ) {
        let (mut out, mut holds) = (Vec::new(), Vec::new());
        for (round, (one, give_back)) in (0u64..).zip(arrivals.iter().zip(give_back)) {
            if subject.admits(one.at, one.cost) {
                out.push((round, subject.commit(one.at, one.cost, true)));
            }
            if let (Some(index), false) = (give_back, out.is_empty()) {
                let (since, taken) = out.swap_remove(index.index(out.len()));
                subject.settle(taken, 0, one.at);
                holds.push(HoldInterval { from: since, until: round + 1, cost: taken.cost });
            }
        }
        holds.extend(out.iter().map(|(since, taken)| HoldInterval { from: *since, until: u64::MAX, cost: taken.cost }));
        prop_assert_eq!(bound::concurrency(&holds, subject.limit.capacity()), Ok(()));
        // Each was released exactly once.
        for (_, taken) in out {
            subject.settle(taken, 0, arrivals[arrivals.len() - 1].at);
        }
        prop_assert_eq!(subject.remaining(1 << 59), subject.limit.capacity());
    }

    /// Callers queued inside the process also depart one by one.
    #[test]
    fn departures_are_spaced_in_both_modes((mut subject, arrivals) in with_arrivals(subjects())) {
        let Limit::LeakyBucket(bucket) = subject.limit else { return Ok(()) };
        let mut left = Vec::new();
        for one in arrivals.iter().filter(|one| one.cost > 0) {
            if subject.check_departure(one.at, one.cost) == Check::Now {
                subject.commit(one.at, one.cost, false);
                left.push(AdmissionEvent { at: one.at, cost: one.cost });
            }
        }
        prop_assert_eq!(bound::departures(&left, pace(bucket.rate())), Ok(()));
    }

    /// No request waits longer than the requests ahead of it take.
    #[test]
    fn queue_waits_are_bounded((mut subject, arrivals) in with_arrivals(subjects())) {
        let Limit::LeakyBucket(bucket) = subject.limit else { return Ok(()) };
        // The emission interval is in sixteenths of a nanosecond, rounded up.
        let period = nanos(bucket.rate().period()) * 16;
        let gap = u128::from(period.div_ceil(bucket.rate().count()));
        for one in arrivals {
            if let Check::After(delay) = subject.take(one.at, one.cost) {
                prop_assert!(u128::from(delay) <= (u128::from(bucket.queue() - one.cost) * gap).div_ceil(16));
            }
        }
    }

    /// The price of the strict window: a request counts for at most a window and a cell or two.
    #[test]
    fn a_sliding_window_expires_after_a_window_and_a_cell((mut subject, arrivals) in with_arrivals(subjects())) {
        let Limit::SlidingWindow(sliding) = subject.limit else { return Ok(()) };
        let (window, cell) = (nanos(sliding.window()), subject.grid());
        let slack = if window % u64::from(sliding.cells()) == 0 { cell } else { 2 * cell };
        let mut latest = 0;
        for one in arrivals {
            subject.take(one.at, one.cost);
            latest = one.at.max(latest);
            prop_assert_eq!(subject.remaining(latest + window + slack), sliding.limit());
        }
    }
}

/// Long deterministic runs of every arrival pattern.
#[test]
fn every_mode_keeps_its_bound_over_long_runs() {
    let rate = "50/s".parse().unwrap();
    let second = std::time::Duration::from_secs(1);
    let limits = [
        Limit::token_bucket(rate, 20).unwrap(),
        Limit::leaky_bucket(rate, 20).unwrap(),
        Limit::fixed_window(50, second, Alignment::Epoch).unwrap(),
        Limit::fixed_window(50, second, Alignment::FirstUse).unwrap(),
        Limit::sliding_window(50, second, 10).unwrap(),
        Limit::sliding_window(300, second, 7).unwrap(),
        Limit::interpolated_window(50, second).unwrap(),
        Limit::sliding_log(50, second).unwrap(),
        Limit::warm_up(rate, 2 * second, 3).unwrap(),
    ];
    for limit in limits {
        for (seed, pattern) in Pattern::ALL.into_iter().enumerate() {
            let mut subject = Subject::new(limit);
            let scale = ArrivalScale::window(1_000_000_000).with_max_cost(4).with_per_window(80);
            let history = admit_all(&mut subject, ArrivalStream::new(seed as u64, pattern, scale).take(10_000));
            assert!(history.len() > 20, "{limit} admitted {} of {pattern:?}", history.len());
            keeps_its_bound(&limit, &history).unwrap_or_else(|violation| panic!("{limit}, {pattern:?}: {violation}"));
        }
    }
}
