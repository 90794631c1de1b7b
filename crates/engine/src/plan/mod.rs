//! Several limits on one key, decided all or nothing.
//!
//! The states of a key's limits stand side by side in one row of words. Deciding asks every limit
//! first and only then takes from each, so a refusal by one spends nothing of the others.

mod adopt;
mod buckets;
mod line;
mod taking;

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::algorithm::gcra::Gcra;
use crate::algorithm::{Algorithm, Alignment, Check, Entry, Status};
use crate::decision::Decision;
use crate::limit::{Limit, LimitError, each_algorithm};
use crate::time::Timestamp;
use buckets::plain_bucket;
pub(crate) use taking::{Holds, Taking};

/// The most limits one key can have.
pub const MOST_LIMITS: usize = 16;

/// Marks of what was taken, one per limit.
type Marks = SmallVec<[u64; 2]>;

/// The limits of one key and where each keeps its state.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Tells plans apart: what was taken under one is ended differently under another.
    id: u64,
    limits: SmallVec<[Limit; 2]>,
    /// Tells each limit from others, and is passed on to the one that replaces it: what was taken from a
    /// limit can be given back to whatever became of it, and to nothing else.
    lineage: SmallVec<[u64; 2]>,
    words: usize,
    /// Whether callers hold something that they must give back.
    permits: bool,
    /// Whether everything is permits, so that a cost means so many of them.
    only_permits: bool,
    /// The arithmetic of all limits, if they are plain token buckets of one word each. The commonest
    /// plan by far, and worth a way of its own.
    buckets: SmallVec<[Gcra; 2]>,
}

/// What all limits together say, before anything is taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ruling {
    pub(crate) check: Check,
    /// The limit it hangs on.
    pub(crate) limit: usize,
}

impl Ruling {
    pub(crate) const fn admits(&self) -> bool {
        matches!(self.check, Check::Now | Check::After(_))
    }
}

impl Plan {
    /// A plan of these limits.
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>) -> Result<Self, LimitError> {
        let limits: SmallVec<[Limit; 2]> = limits.into_iter().collect();
        if limits.is_empty() {
            return Err(LimitError::NoLimits);
        }
        if limits.len() > MOST_LIMITS {
            return Err(LimitError::TooManyLimits { count: limits.len(), most: MOST_LIMITS });
        }
        Ok(Self::of(limits))
    }

    /// A plan of a single limit.
    pub(crate) fn of_one(limit: Limit) -> Self {
        Self::of(SmallVec::from_iter([limit]))
    }

    /// What tells this plan from any other.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    fn of(limits: SmallVec<[Limit; 2]>) -> Self {
        let words = limits.iter().map(Limit::words).sum();
        let permits = limits.iter().any(Limit::is_concurrency);
        let only_permits = limits.iter().all(Limit::is_concurrency);
        static MADE: AtomicU64 = AtomicU64::new(0);
        let id = MADE.fetch_add(1 + limits.len() as u64, Ordering::Relaxed);
        let lineage = (1..).zip(&limits).map(|(nth, _)| id + nth).collect();
        let buckets: Option<_> = limits.iter().map(plain_bucket).collect();
        Self { id, limits, lineage, words, permits, only_permits, buckets: buckets.unwrap_or_default() }
    }

    /// The limits, in the order given.
    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Words of state per key.
    pub(crate) const fn words(&self) -> usize {
        self.words
    }

    #[inline]
    fn cost_of(&self, limit: &Limit, cost: u64) -> u64 {
        if limit.is_concurrency() { self.permits_of(cost) } else { cost }
    }

    /// Each limit with its part of the words.
    fn parts<'a>(&'a self, mut state: &'a [u64]) -> impl Iterator<Item = (&'a Limit, &'a [u64])> {
        self.limits.iter().map(move |limit| {
            let (part, rest) = state.split_at(limit.words());
            state = rest;
            (limit, part)
        })
    }

    /// Whether all limits admit `cost`.
    #[inline]
    pub(crate) fn check(&self, state: &[u64], now: Timestamp, cost: u64, entry: Entry) -> Ruling {
        if !self.buckets.is_empty() {
            return self.check_buckets(state, now, cost);
        }
        let mut ruling = Ruling { check: Check::Now, limit: 0 };
        for (index, (limit, part)) in self.parts(state).enumerate() {
            let cost = self.cost_of(limit, cost);
            let check = each_algorithm!(limit, algorithm => algorithm.check(part, now, cost, entry));
            if check.severity() > ruling.check.severity() {
                ruling = Ruling { check, limit: index };
            }
        }
        ruling
    }

    /// Takes `cost` from every limit, and adds the mark of each.
    #[inline]
    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, hold: bool, marks: &mut Marks) {
        if !self.buckets.is_empty() {
            return self.commit_buckets(state, now, cost, marks);
        }
        self.each_mut(state, |limit, part| {
            let cost = self.cost_of(limit, cost);
            marks.push(each_algorithm!(limit, algorithm => algorithm.commit(part, now, cost, hold)));
        });
    }

    /// Decides at once and keeps hold of nothing: permits are given back on the spot.
    #[inline]
    pub(crate) fn decide(&self, state: &mut [u64], now: Timestamp, cost: u64) -> Decision {
        let ruling = self.check(state, now, cost, Entry::Enqueue);
        if ruling.admits() {
            self.commit(state, now, cost, false, &mut Marks::new());
        }
        let decision = self.decision(ruling, state, now);
        if self.permits && ruling.admits() {
            self.give_back_permits(state, self.permits_of(cost));
        }
        decision
    }

    /// How many permits of each concurrency limit a cost takes. Requests are counted one by one where
    /// they are in flight, whatever else they cost.
    #[inline]
    const fn permits_of(&self, cost: u64) -> u64 {
        match (self.permits, self.only_permits, cost) {
            (false, ..) => 0,
            (true, true, cost) => cost,
            (true, false, 0) => 0,
            (true, false, _) => 1,
        }
    }

    /// What a stranger makes of the state it shares with forgotten keys: a window that opens with a
    /// key's first use opens now.
    pub(crate) fn estrange(&self, state: &mut [u64], now: Timestamp) {
        self.each_mut(state, |limit, part| {
            if let (Limit::FixedWindow(window), [end, _]) = (limit, part)
                && window.alignment() == Alignment::FirstUse
                && *end > now.as_nanos()
            {
                *end = (now + window.window()).as_nanos();
            }
        });
    }

    fn each_mut(&self, state: &mut [u64], mut each: impl FnMut(&Limit, &mut [u64])) {
        let mut rest = state;
        for limit in &self.limits {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            each(limit, part);
        }
    }

    /// What is left of one limit.
    #[inline]
    pub(crate) fn status(&self, state: &[u64], index: usize, now: Timestamp) -> Status {
        let from: usize = self.limits[..index].iter().map(Limit::words).sum();
        let limit = &self.limits[index];
        let part = &state[from..from + limit.words()];
        each_algorithm!(limit, algorithm => algorithm.status(part, now))
    }

    /// What is left of every limit.
    pub(crate) fn statuses(&self, state: &[u64], now: Timestamp) -> Vec<Status> {
        self.parts(state)
            .map(|(limit, part)| each_algorithm!(limit, algorithm => algorithm.status(part, now)))
            .collect()
    }

    /// What is left of every limit, and whether one more would be admitted by it.
    pub(crate) fn looks(&self, state: &[u64], now: Timestamp) -> Vec<(Status, Check)> {
        let look = |(limit, part): (&Limit, &[u64])| {
            each_algorithm!(limit, algorithm => {
                (algorithm.status(part, now), algorithm.check(part, now, 1, Entry::Enqueue))
            })
        };
        self.parts(state).map(look).collect()
    }

    /// The limit with the least left, and what that is.
    #[inline]
    fn tightest(&self, state: &[u64], now: Timestamp) -> (usize, Status) {
        if !self.buckets.is_empty() {
            return self.tightest_bucket(state, now);
        }
        let mut tightest = (0, Status { limit: 0, remaining: u64::MAX, reset: 0 });
        for (index, (limit, part)) in self.parts(state).enumerate() {
            let status = each_algorithm!(limit, algorithm => algorithm.status(part, now));
            if index == 0 || status.remaining < tightest.1.remaining {
                tightest = (index, status);
            }
        }
        tightest
    }

    /// What is left of the limit a ruling hangs on, given the state after it. If nothing refuses, that
    /// is the limit with the least left.
    #[inline]
    pub(crate) fn report(&self, ruling: &mut Ruling, state: &[u64], now: Timestamp) -> Status {
        if ruling.check != Check::Now {
            return self.status(state, ruling.limit, now);
        }
        let (limit, status) = self.tightest(state, now);
        ruling.limit = limit;
        status
    }

    /// The decision to report for a ruling, given the state after it.
    #[inline]
    pub(crate) fn decision(&self, mut ruling: Ruling, state: &[u64], now: Timestamp) -> Decision {
        let status = self.report(&mut ruling, state, now);
        Decision { verdict: ruling.check.verdict(), limit: ruling.limit, status }
    }

    /// From when on the state equals the fresh one.
    #[inline]
    pub(crate) fn full_at(&self, state: &[u64]) -> Timestamp {
        self.parts(state)
            .map(|(limit, part)| each_algorithm!(limit, algorithm => algorithm.full_at(part)))
            .max()
            .unwrap_or(Timestamp::ZERO)
    }

    /// Makes `into` as strict as the stricter of two copies of one key's state: what is held is the same
    /// in both and counts once.
    pub(crate) fn unite(&self, into: &mut [u64], from: &[u64]) {
        let mut rest = into;
        for (limit, from) in self.parts(from) {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            match limit {
                Limit::Concurrency(_) | Limit::TokenBucket(_) | Limit::Bandwidth(_) => {
                    part.iter_mut().zip(from).for_each(|(into, from)| *into = (*into).max(*from));
                }
                _ => each_algorithm!(limit, algorithm => algorithm.merge(part, from)),
            }
        }
    }

    /// Makes `into` at least as strict as both.
    pub(crate) fn merge(&self, into: &mut [u64], from: &[u64]) {
        let mut rest = into;
        for (limit, from) in self.parts(from) {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            each_algorithm!(limit, algorithm => algorithm.merge(part, from));
        }
    }
}
