//! What limits take over from those they replace, so that a change of quota is no free burst.

use std::time::Duration;

use smallvec::SmallVec;

use super::Plan;
use crate::algorithm::gcra::ticks;
use crate::algorithm::{Algorithm, Check, Entry};
use crate::limit::{Limit, each_algorithm};
use crate::time::Timestamp;

impl Plan {
    /// The same plan in place of another: limits go on where those they replace stood.
    #[must_use]
    pub(crate) fn succeeding(mut self, old: &Self) -> Self {
        for (nth, (lineage, predecessor)) in
            self.lineage.iter_mut().zip(predecessors(&self.limits, &old.limits)).enumerate()
        {
            if let Some(index) = predecessor
                && holds_alike(&self.limits[nth], &old.limits[index])
            {
                *lineage = old.lineage[index];
            }
        }
        self
    }

    /// The state these limits take over from other ones, so that a change of quota is no free burst.
    ///
    /// A limit that did not change keeps its state to the bit. A window of the same length goes on with what was
    /// taken in it: raised, there is at once so much more; lowered, so much less. Any other change starts with what
    /// was left of the one it replaces, and no more. Permits and reservations that are out stay out.
    pub(crate) fn adopt(&self, old: &Self, old_state: &[u64], now: Timestamp) -> SmallVec<[u64; 8]> {
        let mut state = SmallVec::from_elem(0, self.words);
        let mut rest: &mut [u64] = &mut state;
        let predecessors = predecessors(&self.limits, &old.limits);
        for (limit, predecessor) in self.limits.iter().zip(predecessors) {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            let Some((old_limit, old_part)) = predecessor.and_then(|index| old.parts(old_state).nth(index)) else {
                continue;
            };
            adopt_one(limit, part, old_limit, old_part, now);
        }
        state
    }
}

/// Whether what is held of the one is counted on by the other.
fn holds_alike(a: &Limit, b: &Limit) -> bool {
    let reservable = |limit: &Limit| matches!(limit, Limit::TokenBucket(b) | Limit::Bandwidth(b) if b.is_reservable());
    (a.is_concurrency() && b.is_concurrency()) || (reservable(a) && reservable(b))
}

/// For each limit the position of the old one it stands for: the same, else one of its kind, else
/// whichever is left over. Among several, the one that speaks of the nearest span of time: who raises ten
/// an hour to eleven does not mean the limit per second.
fn predecessors(limits: &[Limit], old: &[Limit]) -> SmallVec<[Option<usize>; 2]> {
    let mut free: SmallVec<[bool; 4]> = SmallVec::from_elem(true, old.len());
    let mut found: SmallVec<[Option<usize>; 2]> = SmallVec::from_elem(None, limits.len());
    let alike: [fn(&Limit, &Limit) -> bool; 3] =
        [|a, b| a == b, |a, b| a.algorithm() == b.algorithm(), |a, b| !a.is_concurrency() && !b.is_concurrency()];
    for alike in alike {
        loop {
            let new = (0..limits.len()).filter(|&index| found[index].is_none());
            let pairs = new.flat_map(|index| (0..old.len()).map(move |old| (index, old)));
            let pairs = pairs.filter(|&(new, index)| free[index] && alike(&limits[new], &old[index]));
            let nearest =
                pairs.min_by(|a, b| apart(&limits[a.0], &old[a.1]).total_cmp(&apart(&limits[b.0], &old[b.1])));
            let Some((new, index)) = nearest else { break };
            free[index] = false;
            found[new] = Some(index);
        }
    }
    found
}

/// How many times longer the one's span of time is than the other's.
fn apart(a: &Limit, b: &Limit) -> f64 {
    let seconds = |limit: &Limit| limit.window().map_or(1.0, |window| window.as_secs_f64());
    let ratio = seconds(a) / seconds(b);
    ratio.max(1.0 / ratio)
}

fn adopt_one(limit: &Limit, state: &mut [u64], old: &Limit, old_state: &[u64], now: Timestamp) {
    if limit == old || (limit.is_concurrency() && old.is_concurrency()) {
        state.copy_from_slice(old_state);
        return;
    }
    if old_state.iter().all(|word| *word == 0) || keep_counts(limit, state, old, old_state) {
        return;
    }
    let left = each_algorithm!(old, algorithm => algorithm.status(old_state, now)).remaining;
    let wait = match each_algorithm!(old, algorithm => algorithm.check(old_state, now, 1, Entry::Depart)) {
        Check::NotBefore(wait) => wait,
        _ => 0,
    };
    let taken = match (limit, old) {
        // A paced rate knows no amount left; it starts cold.
        (Limit::WarmUp(_), _) => u64::from(wait > 0),
        // And leaves none behind: what comes after it starts with one, or none.
        (_, Limit::WarmUp(_)) => limit.capacity().saturating_sub(u64::from(wait == 0)),
        _ => limit.capacity().saturating_sub(left).saturating_add(overdraft(old, old_state, now)),
    };
    each_algorithm!(limit, algorithm => algorithm.commit(state, now, taken, false));
    if taken == 0 && !matches!(limit, Limit::WarmUp(_)) {
        // Full, but not fresh: the next change must not take it for never used.
        let mark = each_algorithm!(limit, algorithm => algorithm.commit(state, now, 1, false));
        let one = crate::algorithm::Taken { at: now, cost: 1, mark, held: false };
        each_algorithm!(limit, algorithm => algorithm.settle(state, one, 0, now));
    }
    match (limit, &mut *state) {
        (Limit::WarmUp(_), [next, _]) => *next = (*next).max((now + Duration::from_nanos(wait)).as_nanos()),
        // Full, but not fresh: the next change must not take it for never used.
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

/// Lets a window go on with what was taken in it, if it differs only in how much it admits. Answers whether it does.
fn keep_counts(limit: &Limit, state: &mut [u64], old: &Limit, old_state: &[u64]) -> bool {
    if limit.window() != old.window() {
        return false;
    }
    match (limit, old) {
        (Limit::FixedWindow(new), Limit::FixedWindow(old)) if new.alignment() == old.alignment() => {
            state.copy_from_slice(old_state);
        }
        (Limit::InterpolatedWindow(_), Limit::InterpolatedWindow(_)) => state.copy_from_slice(old_state),
        (Limit::SlidingWindow(new), Limit::SlidingWindow(old)) if new.cells() == old.cells() => {
            new.go_on(state, old, old_state);
        }
        (Limit::SlidingLog(new), Limit::SlidingLog(old)) => new.go_on(state, old, old_state),
        _ => return false,
    }
    true
}

/// What was charged to a bucket beyond what it holds.
fn overdraft(limit: &Limit, state: &[u64], now: Timestamp) -> u64 {
    match (limit, state) {
        (Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket), [arrival, ..]) => {
            bucket.gcra().overdraft(*arrival, ticks(now))
        }
        (Limit::LeakyBucket(bucket), [arrival, ..]) => bucket.gcra().overdraft(*arrival, ticks(now)),
        _ => 0,
    }
}
