//! State migration between limit sets, so that a change of quota is no free burst.

use std::time::Duration;

use smallvec::SmallVec;

use super::LimitSet;
use crate::algorithm::gcra::ticks;
use crate::algorithm::{AdmitMode, Algorithm, Check};
use crate::limit::{Limit, each_algorithm};
use crate::time::Timestamp;

impl LimitSet {
    /// Takes over the lineage of the limits that it replaces.
    #[must_use]
    pub(crate) fn with_lineage_of(mut self, old: &Self) -> Self {
        for (new_index, (lineage, predecessor)) in
            self.lineage.iter_mut().zip(predecessors(&self.limits, &old.limits)).enumerate()
        {
            if let Some(index) = predecessor
                && same_holding_kind(&self.limits[new_index], &old.limits[index])
            {
                *lineage = old.lineage[index];
            }
        }
        self
    }

    /// State for these limits, migrated from other ones, so that a change of quota is no free burst.
    ///
    /// An unchanged limit keeps its exact state. A window of the same length keeps its count: raising the limit
    /// adds the difference immediately, lowering it removes it. Any other change starts with the remaining quota of
    /// the replaced limit, and no more. Permits and reservations stay held.
    pub(crate) fn migrate(&self, old: &Self, old_state: &[u64], now: Timestamp) -> SmallVec<[u64; 8]> {
        let mut state = SmallVec::from_elem(0, self.words);
        let mut rest: &mut [u64] = &mut state;
        let predecessors = predecessors(&self.limits, &old.limits);
        for (limit, predecessor) in self.limits.iter().zip(predecessors) {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            let Some((old_limit, old_part)) = predecessor.and_then(|index| old.parts(old_state).nth(index)) else {
                continue;
            };
            migrate_limit(limit, part, old_limit, old_part, now);
        }
        state
    }
}

/// True if holdings of one limit carry over to the other.
fn same_holding_kind(a: &Limit, b: &Limit) -> bool {
    let reservable = |limit: &Limit| matches!(limit, Limit::TokenBucket(b) | Limit::Bandwidth(b) if b.is_reservable());
    (a.is_concurrency() && b.is_concurrency()) || (reservable(a) && reservable(b))
}

/// Finds the old limit that each limit replaces: an equal one, else one of the same algorithm, else any that is
/// left. Among several, the one with the closest window: raising ten per hour to eleven does not refer to the
/// limit per second.
fn predecessors(limits: &[Limit], old: &[Limit]) -> SmallVec<[Option<usize>; 2]> {
    let mut free: SmallVec<[bool; 4]> = SmallVec::from_elem(true, old.len());
    let mut found: SmallVec<[Option<usize>; 2]> = SmallVec::from_elem(None, limits.len());
    let is_similar: [fn(&Limit, &Limit) -> bool; 3] =
        [|a, b| a == b, |a, b| a.algorithm() == b.algorithm(), |a, b| !a.is_concurrency() && !b.is_concurrency()];
    for is_similar in is_similar {
        loop {
            let new = (0..limits.len()).filter(|&index| found[index].is_none());
            let pairs = new.flat_map(|index| (0..old.len()).map(move |old| (index, old)));
            let pairs = pairs.filter(|&(new, index)| free[index] && is_similar(&limits[new], &old[index]));
            let nearest = pairs
                .min_by(|a, b| window_ratio(&limits[a.0], &old[a.1]).total_cmp(&window_ratio(&limits[b.0], &old[b.1])));
            let Some((new, index)) = nearest else { break };
            free[index] = false;
            found[new] = Some(index);
        }
    }
    found
}

/// Ratio of the two windows, at least one.
fn window_ratio(a: &Limit, b: &Limit) -> f64 {
    let seconds = |limit: &Limit| limit.window().map_or(1.0, |window| window.as_secs_f64());
    let ratio = seconds(a) / seconds(b);
    ratio.max(1.0 / ratio)
}

fn migrate_limit(limit: &Limit, state: &mut [u64], old: &Limit, old_state: &[u64], now: Timestamp) {
    if limit == old || (limit.is_concurrency() && old.is_concurrency()) {
        state.copy_from_slice(old_state);
        return;
    }
    if old_state.iter().all(|word| *word == 0) || carry_over_counts(limit, state, old, old_state) {
        return;
    }
    let left = each_algorithm!(old, algorithm => algorithm.status(old_state, now)).remaining;
    let wait = match each_algorithm!(old, algorithm => algorithm.check(old_state, now, 1, AdmitMode::Immediate)) {
        Check::NotBefore(wait) => wait,
        _ => 0,
    };
    let taken = match (limit, old) {
        // A warm-up limit has no remaining quota; it starts cold.
        (Limit::WarmUp(_), _) => u64::from(wait > 0),
        // After a warm-up limit the new limit starts with one request, or none.
        (_, Limit::WarmUp(_)) => limit.capacity().saturating_sub(u64::from(wait == 0)),
        _ => limit.capacity().saturating_sub(left).saturating_add(overdraft(old, old_state, now)),
    };
    each_algorithm!(limit, algorithm => algorithm.commit(state, now, taken, false));
    if taken == 0 && !matches!(limit, Limit::WarmUp(_)) {
        // Full but not fresh: the next change must not treat it as unused.
        let mark = each_algorithm!(limit, algorithm => algorithm.commit(state, now, 1, false));
        let one = crate::algorithm::LimitCharge { at: now, cost: 1, mark, reserved: false };
        each_algorithm!(limit, algorithm => algorithm.settle(state, one, 0, now));
    }
    match (limit, &mut *state) {
        (Limit::WarmUp(_), [next, _]) => *next = (*next).max((now + Duration::from_nanos(wait)).as_nanos()),
        // Full but not fresh: the next change must not treat it as unused.
        (Limit::TokenBucket(_) | Limit::Bandwidth(_) | Limit::LeakyBucket(_), [arrival, ..]) => {
            *arrival = (*arrival).max(ticks(now));
        }
        _ => {}
    }
    if let ([_, out], [_, old_out]) = (state, old_state)
        && matches!(limit, Limit::TokenBucket(_) | Limit::Bandwidth(_))
        && matches!(old, Limit::TokenBucket(_) | Limit::Bandwidth(_))
    {
        *out = *old_out;
    }
}

/// Keeps the count of a window that differs only in its limit. Returns true if that applies.
fn carry_over_counts(limit: &Limit, state: &mut [u64], old: &Limit, old_state: &[u64]) -> bool {
    if limit.window() != old.window() {
        return false;
    }
    match (limit, old) {
        (Limit::FixedWindow(new), Limit::FixedWindow(old)) if new.alignment() == old.alignment() => {
            state.copy_from_slice(old_state);
        }
        (Limit::InterpolatedWindow(_), Limit::InterpolatedWindow(_)) => state.copy_from_slice(old_state),
        (Limit::SlidingWindow(new), Limit::SlidingWindow(old)) if new.cells() == old.cells() => {
            new.carry_over(state, old, old_state);
        }
        (Limit::SlidingLog(new), Limit::SlidingLog(old)) => new.carry_over(state, old, old_state),
        _ => return false,
    }
    true
}

/// Amount charged to a bucket beyond its capacity.
fn overdraft(limit: &Limit, state: &[u64], now: Timestamp) -> u64 {
    match (limit, state) {
        (Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket), [arrival, ..]) => {
            bucket.gcra().overdraft(*arrival, ticks(now))
        }
        (Limit::LeakyBucket(bucket), [arrival, ..]) => bucket.gcra().overdraft(*arrival, ticks(now)),
        _ => 0,
    }
}
