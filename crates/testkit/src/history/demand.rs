//! Lower bounds on the admitted cost of a span, independent of the exact decision times.
//!
//! An admission with an interval inside a span certainly fell into the span. If these admissions alone
//! exceed the allowance of the span, no choice of decision times can explain the history. It is enough to
//! check spans that begin at the start of an interval and end at the end of an interval.

use super::Interval;
use crate::bound::{ExactRate, Violation};

/// Token bucket: `certain(a, b) <= burst + rate × (b - a)` for every span from a to b.
///
/// Sweeps b over the interval ends in order. For every a, a tree holds the cost that certainly fell into
/// the span from a to b plus the refill offset of a; its maximum decides.
pub(super) fn token_bucket(intervals: &[Interval], rate: ExactRate, burst: u64) -> Result<(), Violation> {
    let mut starts: Vec<u64> = intervals.iter().map(|interval| interval.from).collect();
    starts.sort_unstable();
    starts.dedup();
    let Some(&origin) = starts.first() else { return Ok(()) };
    let offset = |at: u64| (i128::from(at) - i128::from(origin)) * rate.count();
    let mut certain = PrefixMax::new(starts.len());
    let mut active = vec![false; starts.len()];

    let mut by_end: Vec<&Interval> = intervals.iter().collect();
    by_end.sort_unstable_by_key(|interval| interval.to);
    for interval in by_end {
        let after = starts.partition_point(|&start| start <= interval.from);
        certain.add_to_first(after, i128::from(interval.cost) * rate.nanos());
        // A start counts once an interval that begins there has ended: until then a later start is at least as
        // strict.
        if !std::mem::replace(&mut active[after - 1], true) {
            certain.activate(after - 1, offset(interval.from));
        }
        let (worst, highest) = certain.highest();
        if highest - offset(interval.to) > i128::from(burst) * rate.nanos() {
            let (from, to) = (starts[worst], interval.to);
            let inside = intervals.iter().filter(|other| other.from >= from && other.to <= to);
            return Err(Violation {
                from,
                to,
                admitted: inside.map(|other| u128::from(other.cost)).sum(),
                allowed: u128::from(burst) + rate.whole_units_in(to.saturating_sub(from)),
            });
        }
    }
    Ok(())
}

/// Any window: the cost that certainly fell into `[a, a + window)` is at most `limit`, for every a.
///
/// An interval certainly falls into the window for every a after `to - window` and up to `from`. Each
/// interval is therefore a range of a, and the sweep finds the maximum overlap of these ranges.
pub(super) fn any_window(intervals: &[Interval], limit: u64, window: u64) -> Result<(), Violation> {
    let mut changes: Vec<(i128, bool, u64)> = Vec::with_capacity(intervals.len() * 2);
    for interval in intervals {
        let (first, last) = (i128::from(interval.to) - i128::from(window) + 1, i128::from(interval.from));
        if first <= last {
            changes.push((first, true, interval.cost));
            changes.push((last + 1, false, interval.cost));
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
            // Starts before clock zero represent spans truncated at zero.
            let from = u64::try_from(start).unwrap_or(0);
            let to = u64::try_from(start + i128::from(window) - 1).unwrap_or(u64::MAX);
            return Err(Violation { from, to, admitted: inside, allowed: u128::from(limit) });
        }
    }
    Ok(())
}

/// Segment tree over a row of numbers: add to a prefix, query the maximum. Both take O(log n).
struct PrefixMax {
    leaves: usize,
    /// Maximum below each node, without the additions at its ancestors.
    highest: Vec<i128>,
    /// Value added to everything below a node.
    added: Vec<i128>,
}

impl PrefixMax {
    /// Value of an inactive number: far below any real value, and far from overflow.
    const NONE: i128 = i128::MIN / 4;

    fn new(count: usize) -> Self {
        let leaves = count.next_power_of_two();
        Self { leaves, highest: vec![Self::NONE; 2 * leaves], added: vec![0; 2 * leaves] }
    }

    /// Activates a number: it becomes `value` plus everything added at its index so far.
    fn activate(&mut self, index: usize, value: i128) {
        self.add_to_first(index + 1, value - Self::NONE);
        self.add_to_first(index, Self::NONE - value);
    }

    fn add_to_first(&mut self, count: usize, value: i128) {
        // Walk up from the first leaf outside the prefix; everything left of the path is inside.
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

    /// Maximum and its index.
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
        let interval = (0u64..3_000, 0u64..800, 1u64..5);
        vec(interval.prop_map(|(from, length, cost)| Interval { from, to: from + length, cost }), 0..40)
    }

    fn certain(intervals: &[Interval], from: u64, to: u64) -> i128 {
        let inside = intervals.iter().filter(|interval| interval.from >= from && interval.to <= to);
        inside.map(|interval| i128::from(interval.cost)).sum()
    }

    proptest! {
        #[test]
        fn token_bucket_sweep_agrees_with_brute_force(intervals in intervals(), count in 1u64..60, burst in 1u64..30) {
            let spans = || intervals.iter().flat_map(|a| intervals.iter().map(move |b| (a.from, b.to)));
            let naive = spans().filter(|(from, to)| from <= to).all(|(from, to)| {
                let excess = certain(&intervals, from, to) - i128::from(burst);
                excess * 1_000 <= i128::from(count) * i128::from(to - from)
            });
            prop_assert_eq!(token_bucket(&intervals, ExactRate::new(count, 1_000), burst).is_ok(), naive);
        }

        #[test]
        fn window_sweep_agrees_with_brute_force(intervals in intervals(), limit in 1u64..30) {
            let naive = intervals.iter().all(|a| certain(&intervals, a.from, a.from + 999) <= i128::from(limit));
            prop_assert_eq!(any_window(&intervals, limit, 1_000).is_ok(), naive);
        }
    }
}
