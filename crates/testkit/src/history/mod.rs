//! Was the promise kept by many callers at once?
//!
//! Seen from outside, a decision has no moment: it fell somewhere between the call and its return.
//! So a history of [`Call`]s can be judged in two ways.
//!
//! * [`Judge::Proof`] reports a violation only if *no* choice of moments within the intervals could
//!   keep the promise. What it reports is over-admission beyond doubt, whatever the scheduler did.
//!   It finds what must lie inside a span (called after its start, returned before its end) and
//!   compares that with what the span allows.
//! * [`Judge::At`] takes each decision at one [`Moment`]. Sharper, and right where the intervals are
//!   points anyway: virtual time, or a store that answers with its own clock.
//!
//! Keys are judged apart, nodes together: that is what "the cluster shares one threshold" means.
//! Everything is O(n log n); millions of calls are fine.
//!
//! ```
//! use sluicegate_testkit::history::{self, Call, Judge, Moment, Promise};
//!
//! let call = |node, called_at, returned_at| Call { node, key: "k", cost: 3, admitted: true, called_at, returned_at };
//! let promise = Promise::AnyWindow { limit: 5, window: 1_000 };
//!
//! // Both may have been decided more than a window apart, so nothing is proved ...
//! let loose = [call(0, 100, 400), call(1, 300, 1_600)];
//! assert!(history::check(&loose, &promise, Judge::Proof).is_ok());
//! // ... though by the moments of calling, 6 were admitted where 5 may be.
//! assert!(history::check(&loose, &promise, Judge::At(Moment::Called)).is_err());
//! // Both certainly fell into one window.
//! let tight = [call(0, 100, 400), call(1, 300, 600)];
//! let violation = history::check(&tight, &promise, Judge::Proof).unwrap_err();
//! assert_eq!((violation.key, violation.violation.admitted), ("k", 6));
//! ```

mod demand;
mod recorder;

use std::fmt;

pub use recorder::Recorder;

use crate::bound::{self, Admitted, Held, Pace, Violation};

/// One decision as its caller saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<K> {
    /// Who asked.
    pub node: u32,
    /// For which key.
    pub key: K,
    /// How much.
    pub cost: u64,
    /// What was answered.
    pub admitted: bool,
    /// When the call was made, in nanoseconds of a clock all callers share.
    pub called_at: u64,
    /// When it returned; not before `called_at`.
    pub returned_at: u64,
}

/// What a limit promises of every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// At most `burst + floor(pace × T)` in any span T.
    TokenBucket {
        /// How fast it is refilled.
        pace: Pace,
        /// Tokens in a full bucket.
        burst: u64,
    },
    /// At most `limit` in any half-open span of `window` nanoseconds.
    AnyWindow {
        /// The most.
        limit: u64,
        /// The span.
        window: u64,
    },
    /// At most `limit` in each window that begins at a multiple of `window`, `phase` added.
    AlignedWindow {
        /// The most.
        limit: u64,
        /// The window's length.
        window: u64,
        /// How far into a window the clock's zero lies.
        phase: u64,
    },
}

/// How a decision's moment is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// In the limiter's favour: only what cannot be explained is a violation.
    Proof,
    /// As if each decision fell exactly then.
    At(Moment),
}

/// One end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// When the call was made.
    Called,
    /// When it returned.
    Returned,
}

/// What a history that kept its promise consisted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// Different keys.
    pub keys: usize,
    /// Calls that were admitted.
    pub admitted: usize,
    /// Calls that were refused.
    pub refused: usize,
    /// Cost that was admitted.
    pub cost: u128,
}

/// A broken promise and the key it was broken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyViolation<K> {
    /// The key.
    pub key: K,
    /// What happened.
    pub violation: Violation,
}

impl<K: fmt::Debug> fmt::Display for KeyViolation<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:?}: {}", self.key, self.violation)
    }
}

impl<K: fmt::Debug> std::error::Error for KeyViolation<K> {}

/// Judges every key of a history. The calls may come in any order.
pub fn check<K: Ord + Clone>(calls: &[Call<K>], promise: &Promise, judge: Judge) -> Result<Summary, KeyViolation<K>> {
    let mut admitted: Vec<&Call<K>> = calls.iter().filter(|call| call.admitted && call.cost > 0).collect();
    admitted.sort_by(|a, b| a.key.cmp(&b.key));
    for one_key in admitted.chunk_by(|a, b| a.key == b.key) {
        let intervals: Vec<Interval> = one_key.iter().map(|call| Interval::of(call)).collect();
        let verdict = match judge {
            Judge::Proof => prove(&intervals, promise),
            Judge::At(moment) => take_at(&intervals, promise, moment),
        };
        verdict.map_err(|violation| KeyViolation { key: one_key[0].key.clone(), violation })?;
    }
    let mut keys: Vec<&K> = calls.iter().map(|call| &call.key).collect();
    keys.sort_unstable();
    keys.dedup();
    Ok(Summary {
        keys: keys.len(),
        admitted: calls.iter().filter(|call| call.admitted).count(),
        refused: calls.iter().filter(|call| !call.admitted).count(),
        cost: admitted.iter().map(|call| u128::from(call.cost)).sum(),
    })
}

/// A permit as its holder saw it: taken by a call, given back by a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit<K> {
    /// Of which key.
    pub key: K,
    /// How many.
    pub cost: u64,
    /// When the call that took it returned: from here on it certainly is out.
    pub granted_at: u64,
    /// When the call that gave it back was made: until here it certainly was out. `u64::MAX` if never.
    pub released_at: u64,
}

/// Whether at no moment more than `limit` permits of a key were certainly out.
pub fn check_permits<K: Ord + Clone>(permits: &[Permit<K>], limit: u64) -> Result<(), KeyViolation<K>> {
    let mut sorted: Vec<&Permit<K>> = permits.iter().collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    for one_key in sorted.chunk_by(|a, b| a.key == b.key) {
        let held = |permit: &&Permit<K>| Held { from: permit.granted_at, until: permit.released_at, cost: permit.cost };
        let holds: Vec<Held> = one_key.iter().map(held).collect();
        bound::concurrency(&holds, limit)
            .map_err(|violation| KeyViolation { key: one_key[0].key.clone(), violation })?;
    }
    Ok(())
}

/// Within which an admission of this cost fell, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    from: u64,
    to: u64,
    cost: u64,
}

impl Interval {
    fn of<K>(call: &Call<K>) -> Self {
        Self { from: call.called_at, to: call.returned_at.max(call.called_at), cost: call.cost }
    }
}

fn prove(intervals: &[Interval], promise: &Promise) -> Result<(), Violation> {
    match *promise {
        Promise::TokenBucket { pace, burst } => demand::token_bucket(intervals, pace, burst),
        Promise::AnyWindow { limit, window } => demand::any_window(intervals, limit, window),
        Promise::AlignedWindow { limit, window, phase } => {
            let number = |at: u64| (u128::from(at) + u128::from(phase)) / u128::from(window);
            let certain = intervals.iter().filter(|one| number(one.from) == number(one.to));
            let history: Vec<_> = certain.map(|one| Admitted { at: one.from, cost: one.cost }).collect();
            bound::aligned_window(&history, limit, window, phase)
        }
    }
}

fn take_at(intervals: &[Interval], promise: &Promise, moment: Moment) -> Result<(), Violation> {
    let at = |one: &Interval| match moment {
        Moment::Called => one.from,
        Moment::Returned => one.to,
    };
    let history: Vec<_> = intervals.iter().map(|one| Admitted { at: at(one), cost: one.cost }).collect();
    match *promise {
        Promise::TokenBucket { pace, burst } => bound::token_bucket(&history, pace, burst),
        Promise::AnyWindow { limit, window } => bound::any_window(&history, limit, window),
        Promise::AlignedWindow { limit, window, phase } => bound::aligned_window(&history, limit, window, phase),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(node: u32, key: u64, cost: u64, called_at: u64, returned_at: u64) -> Call<u64> {
        Call { node, key, cost, admitted: true, called_at, returned_at }
    }

    #[test]
    fn keys_are_judged_apart_and_nodes_together() {
        let promise = Promise::TokenBucket { pace: Pace::per_second(1), burst: 5 };
        let apart = [call(0, 1, 5, 0, 1), call(0, 2, 5, 0, 1)];
        let together = [call(0, 1, 5, 0, 1), call(1, 1, 5, 0, 1)];
        let summary = check(&apart, &promise, Judge::Proof).unwrap();
        assert_eq!(summary, Summary { keys: 2, admitted: 2, refused: 0, cost: 10 });
        assert_eq!(check(&together, &promise, Judge::Proof).unwrap_err().violation.admitted, 10);
    }

    #[test]
    fn refusals_and_looks_count_nothing() {
        let promise = Promise::AnyWindow { limit: 1, window: 1_000 };
        let refused = Call { admitted: false, ..call(0, 1, 9, 0, 1) };
        let summary = check(&[call(0, 1, 1, 0, 1), refused, call(0, 1, 0, 0, 1)], &promise, Judge::Proof).unwrap();
        assert_eq!((summary.admitted, summary.refused, summary.cost), (2, 1, 1));
    }

    #[test]
    fn an_interval_across_an_edge_may_belong_to_either_window() {
        let promise = Promise::AlignedWindow { limit: 5, window: 1_000, phase: 0 };
        assert!(check(&[call(0, 1, 5, 900, 950), call(0, 1, 5, 990, 1_010)], &promise, Judge::Proof).is_ok());
        assert!(check(&[call(0, 1, 5, 900, 950), call(0, 1, 5, 990, 999)], &promise, Judge::Proof).is_err());
    }

    #[test]
    fn a_permit_counts_only_while_it_certainly_is_out() {
        let permit = |granted_at, released_at| Permit { key: 1, cost: 1, granted_at, released_at };
        assert!(check_permits(&[permit(0, 10), permit(10, u64::MAX)], 1).is_ok());
        assert!(check_permits(&[permit(0, 11), permit(10, u64::MAX)], 1).is_err());
    }

    #[test]
    fn a_million_calls_are_judged_quickly() {
        let calls: Vec<_> = (0..1_000_000u64).map(|i| call(0, i % 3, 1, i * 1_000, i * 1_000 + 7_000)).collect();
        let pace = Pace::per_second(400_000);
        assert!(check(&calls, &Promise::TokenBucket { pace, burst: 10 }, Judge::Proof).is_ok());
        assert!(check(&calls, &Promise::AnyWindow { limit: 335, window: 1_000_000 }, Judge::Proof).is_ok());
    }
}
