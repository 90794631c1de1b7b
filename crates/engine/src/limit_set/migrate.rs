//! State migration between limit sets, so that a change of quota is no free burst.

use smallvec::SmallVec;

use super::LimitSet;
use crate::algorithm::Algorithm;
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
    let kind = |limit: &Limit| each_algorithm!(limit, algorithm => algorithm.holding());
    kind(a).is_some() && kind(a) == kind(b)
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
    if limit == old {
        state.copy_from_slice(old_state);
        return;
    }
    if old_state.iter().all(|word| *word == 0) || limit.carry_over(state, old, old_state) {
        return;
    }
    let leftover = each_algorithm!(old, algorithm => algorithm.leftover(old_state, now));
    each_algorithm!(limit, algorithm => algorithm.start_with(state, leftover, now));
}
