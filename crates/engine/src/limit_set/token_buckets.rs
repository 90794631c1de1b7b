//! Specialized implementation for limit sets of plain token buckets, by far the most common.

use super::{Evaluation, LimitSet, Marks};
use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::algorithm::{Check, Status};
use crate::limit::Limit;
use crate::time::Timestamp;

impl LimitSet {
    /// GCRA of the only limit, if it is a token bucket with one word of state.
    pub(crate) fn single_bucket(&self) -> Option<Gcra> {
        match &*self.buckets {
            [bucket] => Some(*bucket),
            _ => None,
        }
    }

    /// [`LimitSet::check`] for plain buckets.
    pub(super) fn check_buckets(&self, state: &[u64], now: Timestamp, cost: u64) -> Evaluation {
        let now = ticks(now);
        let mut evaluation = Evaluation { check: Check::Now, limit: 0 };
        for (index, (bucket, arrival)) in self.buckets.iter().zip(state).enumerate() {
            let check = if cost > bucket.burst() {
                Check::Never
            } else if let (Err(early), 1..) = (bucket.admit(*arrival, now, cost), cost) {
                Check::NotBefore(nanos_covering(early))
            } else {
                continue;
            };
            if check.severity() > evaluation.check.severity() {
                evaluation = Evaluation { check, limit: index };
            }
        }
        evaluation
    }

    /// [`LimitSet::commit`] for plain buckets.
    pub(super) fn commit_buckets(&self, state: &mut [u64], now: Timestamp, cost: u64, marks: &mut Marks) {
        let now = ticks(now);
        for (bucket, arrival) in self.buckets.iter().zip(state) {
            if cost > 0 {
                *arrival = (*arrival).max(now).saturating_add(bucket.span(cost));
            }
            marks.push(*arrival);
        }
    }

    /// [`LimitSet::tightest`] for plain buckets.
    pub(super) fn tightest_bucket(&self, state: &[u64], now: Timestamp) -> (usize, Status) {
        let now = ticks(now);
        let mut tightest = (0, u64::MAX);
        for (index, (bucket, arrival)) in self.buckets.iter().zip(state).enumerate() {
            let remaining = bucket.remaining(*arrival, now);
            if remaining < tightest.1 {
                tightest = (index, remaining);
            }
        }
        let (index, remaining) = tightest;
        let reset = nanos_covering(state[index].saturating_sub(now));
        (index, Status { limit: self.buckets[index].burst(), remaining, reset })
    }
}

/// GCRA of a token bucket with one word of state.
pub(super) fn plain_bucket(limit: &Limit) -> Option<Gcra> {
    limit.as_token_bucket().filter(|_| limit.words() == 1).copied()
}
