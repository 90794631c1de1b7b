//! Plans of plain token buckets: the commonest by far, and worth a way of their own.

use super::{Marks, Plan, Ruling};
use crate::algorithm::gcra::{Gcra, nanos_covering, ticks};
use crate::algorithm::{Check, Status};
use crate::limit::Limit;
use crate::time::Timestamp;

impl Plan {
    /// The arithmetic of the only limit, if it is a token bucket in one word.
    pub(crate) fn single_bucket(&self) -> Option<Gcra> {
        match &*self.buckets {
            [bucket] => Some(*bucket),
            _ => None,
        }
    }

    /// [`Plan::check`] for plain buckets.
    pub(super) fn check_buckets(&self, state: &[u64], now: Timestamp, cost: u64) -> Ruling {
        let now = ticks(now);
        let mut ruling = Ruling { check: Check::Now, limit: 0 };
        for (index, (bucket, arrival)) in self.buckets.iter().zip(state).enumerate() {
            let check = if cost > bucket.burst() {
                Check::Never
            } else if let (Err(early), 1..) = (bucket.admit(*arrival, now, cost), cost) {
                Check::NotBefore(nanos_covering(early))
            } else {
                continue;
            };
            if check.severity() > ruling.check.severity() {
                ruling = Ruling { check, limit: index };
            }
        }
        ruling
    }

    /// [`Plan::commit`] for plain buckets.
    pub(super) fn commit_buckets(&self, state: &mut [u64], now: Timestamp, cost: u64, marks: &mut Marks) {
        let now = ticks(now);
        for (bucket, arrival) in self.buckets.iter().zip(state) {
            if cost > 0 {
                *arrival = (*arrival).max(now).saturating_add(bucket.span(cost));
            }
            marks.push(*arrival);
        }
    }

    /// [`Plan::tightest`] for plain buckets.
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

/// The arithmetic of a limit that is a token bucket in one word.
pub(super) fn plain_bucket(limit: &Limit) -> Option<Gcra> {
    match limit {
        Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) if !bucket.is_reservable() => Some(*bucket.gcra()),
        _ => None,
    }
}
