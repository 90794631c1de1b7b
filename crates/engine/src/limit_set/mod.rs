//! Limit set: several limits on one key, decided all or nothing.
//!
//! The states of a key's limits are adjacent in one array of words. A decision checks every limit first and
//! charges them only afterwards, so that a refusal by one consumes nothing of the others.

mod charge;
mod forecast;
mod migrate;
mod token_buckets;

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::algorithm::gcra::Gcra;
use crate::algorithm::{AdmitMode, Algorithm, Check, Status};
use crate::decision::Decision;
use crate::limit::{Limit, LimitError, each_algorithm};
use crate::time::Timestamp;
pub(crate) use charge::{Charge, Holdings, SlotLocation};
use token_buckets::plain_bucket;

/// Maximum number of limits per key.
pub const MAX_LIMITS: usize = 16;

/// Marks of a charge, one per limit.
type Marks = SmallVec<[u64; 2]>;

/// Limits of one key and the layout of their state.
#[derive(Debug)]
pub(crate) struct LimitSet {
    /// Unique id: a charge under one limit set ends differently under another.
    id: u64,
    limits: SmallVec<[Limit; 2]>,
    /// Identity of each limit, inherited by the limit that replaces it: holdings are released only to the same
    /// limit or its successor.
    lineage: SmallVec<[u64; 2]>,
    words: usize,
    /// Set if requests hold permits.
    permits: bool,
    /// Set if all limits are concurrency limits, so that the cost is the number of permits.
    only_permits: bool,
    /// GCRA of all limits, if they are plain token buckets with one word each. By far the most common limit set,
    /// with a specialized implementation.
    buckets: SmallVec<[Gcra; 2]>,
}

/// Combined result of all limits, before anything is charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evaluation {
    pub(crate) check: Check,
    /// Index of the deciding limit.
    pub(crate) limit: usize,
}

impl Evaluation {
    pub(crate) const fn admits(&self) -> bool {
        matches!(self.check, Check::Now | Check::After(_))
    }
}

impl LimitSet {
    /// Creates a set of these limits.
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>) -> Result<Self, LimitError> {
        let limits: SmallVec<[Limit; 2]> = limits.into_iter().collect();
        if limits.is_empty() {
            return Err(LimitError::NoLimits);
        }
        if limits.len() > MAX_LIMITS {
            return Err(LimitError::TooManyLimits { count: limits.len(), max: MAX_LIMITS });
        }
        Ok(Self::of(limits))
    }

    /// Set of a single limit.
    pub(crate) fn single(limit: Limit) -> Self {
        Self::of(SmallVec::from_iter([limit]))
    }

    /// Unique id of this limit set.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    fn of(limits: SmallVec<[Limit; 2]>) -> Self {
        let words = limits.iter().map(Limit::words).sum();
        let permits = limits.iter().any(Limit::is_concurrency);
        let only_permits = limits.iter().all(Limit::is_concurrency);
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1 + limits.len() as u64, Ordering::Relaxed);
        let lineage = (1..).zip(&limits).map(|(offset, _)| id + offset).collect();
        let buckets: Option<_> = limits.iter().map(plain_bucket).collect();
        Self { id, limits, lineage, words, permits, only_permits, buckets: buckets.unwrap_or_default() }
    }

    /// The limits, in the order given.
    pub(crate) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// True if an admitted request holds nothing and starts immediately under every limit.
    pub(crate) fn is_plain(&self) -> bool {
        self.limits.iter().all(|limit| !limit.is_concurrency() && !limit.is_paced())
    }

    /// Words of state per key.
    pub(crate) const fn words(&self) -> usize {
        self.words
    }

    #[inline]
    fn cost_of(&self, limit: &Limit, cost: u64) -> u64 {
        if limit.is_concurrency() { self.permits_of(cost) } else { cost }
    }

    /// Each limit with its part of the state.
    fn parts<'a>(&'a self, mut state: &'a [u64]) -> impl Iterator<Item = (&'a Limit, &'a [u64])> {
        self.limits.iter().map(move |limit| {
            let (part, rest) = state.split_at(limit.words());
            state = rest;
            (limit, part)
        })
    }

    /// Checks `cost` against all limits.
    #[inline]
    pub(crate) fn check(&self, state: &[u64], now: Timestamp, cost: u64, entry: AdmitMode) -> Evaluation {
        if !self.buckets.is_empty() {
            return self.check_buckets(state, now, cost);
        }
        let mut evaluation = Evaluation { check: Check::Now, limit: 0 };
        for (index, (limit, part)) in self.parts(state).enumerate() {
            let cost = self.cost_of(limit, cost);
            let check = each_algorithm!(limit, algorithm => algorithm.check(part, now, cost, entry));
            if check.severity() > evaluation.check.severity() {
                evaluation = Evaluation { check, limit: index };
            }
        }
        evaluation
    }

    /// Charges `cost` to every limit and appends the mark of each.
    #[inline]
    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, reserve: bool, marks: &mut Marks) {
        if !self.buckets.is_empty() {
            return self.commit_buckets(state, now, cost, marks);
        }
        self.each_mut(state, |limit, part| {
            let cost = self.cost_of(limit, cost);
            marks.push(each_algorithm!(limit, algorithm => algorithm.commit(part, now, cost, reserve)));
        });
    }

    /// Decides and holds nothing: permits are released immediately.
    #[inline]
    pub(crate) fn decide(&self, state: &mut [u64], now: Timestamp, cost: u64) -> Decision {
        let evaluation = self.check(state, now, cost, AdmitMode::Reserve);
        if evaluation.admits() {
            self.commit(state, now, cost, false, &mut Marks::new());
        }
        let decision = self.decision(evaluation, state, now);
        if self.permits && evaluation.admits() {
            self.release_permits(state, self.permits_of(cost), now);
        }
        decision
    }

    /// Number of permits of each concurrency limit for a cost. Next to other limits a request takes one permit,
    /// regardless of its cost.
    #[inline]
    const fn permits_of(&self, cost: u64) -> u64 {
        match (self.permits, self.only_permits, cost) {
            (false, ..) => 0,
            (true, true, cost) => cost,
            (true, false, 0) => 0,
            (true, false, _) => 1,
        }
    }

    /// Prepares state shared with evicted keys for a new key: windows that start at first use start now.
    pub(crate) fn restart_first_use_windows(&self, state: &mut [u64], now: Timestamp) {
        self.each_mut(state, |limit, part| each_algorithm!(limit, algorithm => algorithm.restart(part, now)));
    }

    fn each_mut(&self, state: &mut [u64], mut each: impl FnMut(&Limit, &mut [u64])) {
        let mut rest = state;
        for limit in &self.limits {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            each(limit, part);
        }
    }

    /// Status of one limit.
    #[inline]
    pub(crate) fn status(&self, state: &[u64], index: usize, now: Timestamp) -> Status {
        let from: usize = self.limits[..index].iter().map(Limit::words).sum();
        let limit = &self.limits[index];
        let part = &state[from..from + limit.words()];
        each_algorithm!(limit, algorithm => algorithm.status(part, now))
    }

    /// Status of every limit.
    pub(crate) fn statuses(&self, state: &[u64], now: Timestamp) -> Vec<Status> {
        self.parts(state)
            .map(|(limit, part)| each_algorithm!(limit, algorithm => algorithm.status(part, now)))
            .collect()
    }

    /// Status of every limit, and its check of one more request.
    pub(crate) fn peek_all(&self, state: &[u64], now: Timestamp) -> Vec<(Status, Check)> {
        let peek = |(limit, part): (&Limit, &[u64])| {
            each_algorithm!(limit, algorithm => {
                (algorithm.status(part, now), algorithm.check(part, now, 1, AdmitMode::Reserve))
            })
        };
        self.parts(state).map(peek).collect()
    }

    /// Limit with the least remaining quota, and its status.
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

    /// Status of the deciding limit after the decision. If nothing refuses, that is the limit with the least
    /// remaining quota.
    #[inline]
    pub(crate) fn report(&self, evaluation: &mut Evaluation, state: &[u64], now: Timestamp) -> Status {
        if evaluation.check != Check::Now {
            return self.status(state, evaluation.limit, now);
        }
        let (limit, status) = self.tightest(state, now);
        evaluation.limit = limit;
        status
    }

    /// Decision to report for an evaluation, given the state after it.
    #[inline]
    pub(crate) fn decision(&self, mut evaluation: Evaluation, state: &[u64], now: Timestamp) -> Decision {
        let status = self.report(&mut evaluation, state, now);
        Decision { verdict: evaluation.check.verdict(), limit: evaluation.limit, status }
    }

    /// Time from which the state equals a fresh one.
    #[inline]
    pub(crate) fn full_at(&self, state: &[u64]) -> Timestamp {
        self.parts(state)
            .map(|(limit, part)| each_algorithm!(limit, algorithm => algorithm.full_at(part)))
            .max()
            .unwrap_or(Timestamp::ZERO)
    }

    /// Merges two copies of one key's state into the stricter one: holdings are the same in both and count once.
    pub(crate) fn merge_copies(&self, into: &mut [u64], from: &[u64]) {
        let mut rest = into;
        for (limit, from) in self.parts(from) {
            let (part, tail) = rest.split_at_mut(limit.words());
            rest = tail;
            each_algorithm!(limit, algorithm => algorithm.merge_copies(part, from));
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
