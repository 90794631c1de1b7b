//! What must have happened within a span, whatever the moments were.
//!
//! An admission whose whole interval lies within a span certainly fell into it. If these alone come to
//! more than the span allows, no choice of moments can explain the history. It is enough to look at
//! spans that begin where some interval begins and end where some interval ends.

use super::Interval;
use crate::bound::{Pace, Violation};

/// Token bucket: `certain(a, b) <= burst + pace × (b - a)` for every span from a to b.
///
/// Swept over b in order of the intervals' ends. For every a, a tree keeps what certainly fell into
/// the span from a to b, plus the refill that a's earliness takes away; its highest value decides.
pub(super) fn token_bucket(intervals: &[Interval], pace: Pace, burst: u64) -> Result<(), Violation> {
    let mut starts: Vec<u64> = intervals.iter().map(|one| one.from).collect();
    starts.sort_unstable();
    starts.dedup();
    let Some(&origin) = starts.first() else { return Ok(()) };
    let offset = |at: u64| (i128::from(at) - i128::from(origin)) * pace.count();
    let mut certain = PrefixMax::new(starts.len());
    let mut begun = vec![false; starts.len()];

    let mut by_end: Vec<&Interval> = intervals.iter().collect();
    by_end.sort_unstable_by_key(|one| one.to);
    for one in by_end {
        let after = starts.partition_point(|&start| start <= one.from);
        certain.add_to_first(after, i128::from(one.cost) * pace.nanos());
        // A start counts once something that begins there has ended: before, a later one is as good.
        if !std::mem::replace(&mut begun[after - 1], true) {
            certain.raise(after - 1, offset(one.from));
        }
        let (worst, highest) = certain.highest();
        if highest - offset(one.to) > i128::from(burst) * pace.nanos() {
            let (from, to) = (starts[worst], one.to);
            let inside = intervals.iter().filter(|other| other.from >= from && other.to <= to);
            return Err(Violation {
                from,
                to,
                admitted: inside.map(|other| u128::from(other.cost)).sum(),
                allowed: u128::from(burst) + pace.whole_in(to.saturating_sub(from)),
            });
        }
    }
    Ok(())
}

/// Any window: what certainly fell into `[a, a + window)` is at most `limit`, for every a.
///
/// An interval certainly falls into it for every a after `to - window` and up to `from`; so each
/// interval is a stretch of a's, and the question is where the stretches pile up highest.
pub(super) fn any_window(intervals: &[Interval], limit: u64, window: u64) -> Result<(), Violation> {
    let mut changes: Vec<(i128, bool, u64)> = Vec::with_capacity(intervals.len() * 2);
    for one in intervals {
        let (first, last) = (i128::from(one.to) - i128::from(window) + 1, i128::from(one.from));
        if first <= last {
            changes.push((first, true, one.cost));
            changes.push((last + 1, false, one.cost));
        }
    }
    changes.sort_unstable();
    let mut inside = 0u128;
    for (start, enters, cost) in changes {
        if enters {
            inside += u128::from(cost);
        } else {
            inside -= u128::from(cost);
        }
        if inside > u128::from(limit) {
            // Starts before the clock's zero stand for spans that are cut off there.
            let from = u64::try_from(start).unwrap_or(0);
            let to = u64::try_from(start + i128::from(window) - 1).unwrap_or(u64::MAX);
            return Err(Violation { from, to, admitted: inside, allowed: u128::from(limit) });
        }
    }
    Ok(())
}

/// Numbers in a row: add to the first so many of them, ask for the highest. Both in O(log n).
struct PrefixMax {
    leaves: usize,
    /// A node's highest value below it, without what was added above it.
    highest: Vec<i128>,
    /// What was added to everything below a node.
    added: Vec<i128>,
}

impl PrefixMax {
    /// Far below anything real, yet far from overflowing: a number that does not count yet.
    const NONE: i128 = i128::MIN / 4;

    fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self { leaves, highest: vec![Self::NONE; 2 * leaves], added: vec![0; 2 * leaves] }
    }

    /// Makes a number count that did not: `value`, and what was added to its place so far.
    fn raise(&mut self, place: usize, value: i128) {
        self.add_to_first(place + 1, value - Self::NONE);
        self.add_to_first(place, Self::NONE - value);
    }

    fn add_to_first(&mut self, count: usize, value: i128) {
        // Walk down to the first leaf that is not meant; everything left of the path is.
        if count >= self.leaves {
            return self.add_below(1, value);
        }
        let mut node = self.leaves + count;
        let target = node;
        while node > 1 {
            if node % 2 == 1 {
                self.add_below(node - 1, value);
            }
            node /= 2;
        }
        let mut node = target / 2;
        while node >= 1 {
            self.highest[node] = self.highest[2 * node].max(self.highest[2 * node + 1]) + self.added[node];
            node /= 2;
        }
    }

    fn add_below(&mut self, node: usize, value: i128) {
        self.highest[node] += value;
        self.added[node] += value;
    }

    /// The highest number and where it stands.
    fn highest(&self) -> (usize, i128) {
        let mut node = 1;
        while node < self.leaves {
            node = 2 * node + usize::from(self.highest[2 * node] < self.highest[2 * node + 1]);
        }
        (node - self.leaves, self.highest[1])
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn intervals() -> impl Strategy<Value = Vec<Interval>> {
        let one = (0u64..3_000, 0u64..800, 1u64..5);
        vec(one.prop_map(|(from, length, cost)| Interval { from, to: from + length, cost }), 0..40)
    }

    fn certain(intervals: &[Interval], from: u64, to: u64) -> i128 {
        let inside = intervals.iter().filter(|one| one.from >= from && one.to <= to);
        inside.map(|one| i128::from(one.cost)).sum()
    }

    proptest! {
        #[test]
        fn the_sweep_agrees_with_trying_every_span(intervals in intervals(), count in 1u64..60, burst in 1u64..30) {
            let spans = || intervals.iter().flat_map(|a| intervals.iter().map(move |b| (a.from, b.to)));
            let naive = spans().filter(|(from, to)| from <= to).all(|(from, to)| {
                let spare = certain(&intervals, from, to) - i128::from(burst);
                spare * 1_000 <= i128::from(count) * i128::from(to - from)
            });
            prop_assert_eq!(token_bucket(&intervals, Pace::new(count, 1_000), burst).is_ok(), naive);
        }

        #[test]
        fn the_stretches_agree_with_trying_every_start(intervals in intervals(), limit in 1u64..30) {
            let naive = intervals.iter().all(|a| certain(&intervals, a.from, a.from + 999) <= i128::from(limit));
            prop_assert_eq!(any_window(&intervals, limit, 1_000).is_ok(), naive);
        }
    }
}
