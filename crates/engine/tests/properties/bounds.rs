//! Every mode keeps its bound: random arrivals, random costs, clocks that stall, jump and step back.
//!
//! The judge is the testkit's, which sees only what was admitted. A mode that stays in its window when
//! the clock steps back is judged in effective time.

use proptest::prelude::*;
use sluicegate_engine::Limit;
use sluicegate_engine::algorithm::{Alignment, Check};
use sluicegate_engine::time::EPOCH_UNIX_SECONDS;
use sluicegate_testkit::arrivals::{Arrival, Pattern, Scale, Stream};
use sluicegate_testkit::bound::{self, Admitted, Held, Violation};

use crate::subject::{Subject, holdable, nanos, pace, subjects, with_arrivals, with_two_orderly_runs};

/// Plays the arrivals and answers who was let in; for limits that pace, when they were let out.
fn let_in(subject: &mut Subject, arrivals: impl IntoIterator<Item = Arrival>) -> Vec<Admitted> {
    let mut admitted = Vec::new();
    for one in arrivals {
        let delay = match subject.take(one.at, one.cost) {
            Check::Now => 0,
            Check::After(delay) => delay,
            _ => continue,
        };
        if one.cost > 0 {
            admitted.push(Admitted { at: one.at + delay, cost: one.cost });
        }
    }
    admitted
}

/// What the limit's documentation promises of any history.
pub(crate) fn keeps_its_bound(limit: &Limit, history: &[Admitted]) -> Result<(), Violation> {
    let effective = bound::effective(history);
    match limit {
        Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) => {
            bound::token_bucket(history, pace(bucket.rate()), bucket.burst())
        }
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
            // Never twice the limit, though almost; and a window that begins on an edge is exact.
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
        other => panic!("{other} has no bound here: add it"),
    }
}

proptest! {
    #[test]
    fn every_mode_keeps_its_bound((mut subject, arrivals) in with_arrivals(subjects())) {
        let history = let_in(&mut subject, arrivals);
        if let Err(violation) = keeps_its_bound(&subject.limit, &history) {
            prop_assert!(false, "{}: {}", subject.limit, violation);
        }
    }

    /// Permits out never exceed the limit, in whatever order they come back.
    #[test]
    fn permits_out_never_exceed_the_limit(
        (mut subject, arrivals, _) in with_two_orderly_runs(holdable()),
        give_back in prop::collection::vec(any::<Option<prop::sample::Index>>(), 150),
    ) {
        let (mut out, mut holds) = (Vec::new(), Vec::new());
        for (turn, (one, give_back)) in (0u64..).zip(arrivals.iter().zip(give_back)) {
            if subject.admits(one.at, one.cost) {
                out.push((turn, subject.commit(one.at, one.cost, true)));
            }
            if let (Some(which), false) = (give_back, out.is_empty()) {
                let (since, taken) = out.swap_remove(which.index(out.len()));
                subject.settle(taken, 0, one.at);
                holds.push(Held { from: since, until: turn + 1, cost: taken.cost });
            }
        }
        holds.extend(out.iter().map(|(since, taken)| Held { from: *since, until: u64::MAX, cost: taken.cost }));
        prop_assert_eq!(bound::concurrency(&holds, subject.limit.capacity()), Ok(()));
        // Each came back exactly once.
        for (_, taken) in out {
            subject.settle(taken, 0, arrivals[arrivals.len() - 1].at);
        }
        prop_assert_eq!(subject.remaining(1 << 59), subject.limit.capacity());
    }

    /// Callers who wait inside leave one by one too.
    #[test]
    fn departures_are_spaced_whoever_keeps_the_line((mut subject, arrivals) in with_arrivals(subjects())) {
        let Limit::LeakyBucket(bucket) = subject.limit else { return Ok(()) };
        let mut left = Vec::new();
        for one in arrivals.iter().filter(|one| one.cost > 0) {
            if subject.check_departure(one.at, one.cost) == Check::Now {
                subject.commit(one.at, one.cost, false);
                left.push(Admitted { at: one.at, cost: one.cost });
            }
        }
        prop_assert_eq!(bound::departures(&left, pace(bucket.rate())), Ok(()));
    }

    /// Nobody waits longer than those who fit in front of them take.
    #[test]
    fn waiting_in_line_is_bounded((mut subject, arrivals) in with_arrivals(subjects())) {
        let Limit::LeakyBucket(bucket) = subject.limit else { return Ok(()) };
        // The gap between two is kept in sixteenths of a nanosecond, rounded up.
        let period = nanos(bucket.rate().period()) * 16;
        let gap = u128::from(period.div_ceil(bucket.rate().count()));
        for one in arrivals {
            if let Check::After(delay) = subject.take(one.at, one.cost) {
                prop_assert!(u128::from(delay) <= (u128::from(bucket.queue() - one.cost) * gap).div_ceil(16));
            }
        }
    }

    /// The price of the strict window: nothing is remembered longer than a window and a cell or two.
    #[test]
    fn a_sliding_window_forgets_after_a_window_and_a_cell((mut subject, arrivals) in with_arrivals(subjects())) {
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

/// Long runs of every pattern, the same on every machine.
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
            let scale = Scale::window(1_000_000_000).costing(4).crowded(80);
            let history = let_in(&mut subject, Stream::new(seed as u64, pattern, scale).take(10_000));
            assert!(history.len() > 20, "{limit} let in {} of {pattern:?}", history.len());
            keeps_its_bound(&limit, &history).unwrap_or_else(|violation| panic!("{limit}, {pattern:?}: {violation}"));
        }
    }
}
