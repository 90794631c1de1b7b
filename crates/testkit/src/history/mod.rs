//! Limit checkers for concurrent histories.
//!
//! An outside observer does not know the time of a decision, only that it lies between the call and its
//! return. A history of [`Call`]s can therefore be checked in two ways.
//!
//! * [`CheckMode::Proof`] reports a violation only if *no* choice of decision times within the intervals
//!   satisfies the guarantee. A reported violation is proven over-admission, independent of scheduling.
//!   It sums the admissions that lie inside a span (called after its start, returned before its end) and
//!   compares the sum with the span's allowance.
//! * [`CheckMode::AssumeAt`] places each decision at one [`CallEdge`]. It is stricter, and correct if
//!   intervals are points: in virtual time, or with a store that reports its own clock.
//!
//! Keys are checked separately and nodes combined: a cluster shares one limit.
//! All checks are O(n log n) and handle millions of calls.
//!
//! ```
//! use sluicegate_testkit::history::{self, Call, CallEdge, CheckMode, Guarantee};
//!
//! let call = |node, called_at, returned_at| Call { node, key: "k", cost: 3, admitted: true, called_at, returned_at };
//! let guarantee = Guarantee::AnyWindow { limit: 5, window: 1_000 };
//!
//! // Both may have been decided more than a window apart, so nothing is proven ...
//! let loose = [call(0, 100, 400), call(1, 300, 1_600)];
//! assert!(history::check(&loose, &guarantee, CheckMode::Proof).is_ok());
//! // ... but by call times, 6 were admitted and 5 are allowed.
//! assert!(history::check(&loose, &guarantee, CheckMode::AssumeAt(CallEdge::Called)).is_err());
//! // Both certainly fell into one window.
//! let tight = [call(0, 100, 400), call(1, 300, 600)];
//! let violation = history::check(&tight, &guarantee, CheckMode::Proof).unwrap_err();
//! assert_eq!((violation.key, violation.violation.admitted), ("k", 6));
//! ```

mod demand;
mod recorder;

use std::fmt;

pub use recorder::CallRecorder;

use crate::bound::{self, AdmissionEvent, ExactRate, HoldInterval, Violation};

/// One decision as seen by its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<K> {
    /// Calling node.
    pub node: u32,
    /// Key of the call.
    pub key: K,
    /// Cost of the call.
    pub cost: u64,
    /// True if the call was admitted.
    pub admitted: bool,
    /// Time of the call, in nanoseconds of a clock shared by all callers.
    pub called_at: u64,
    /// Time of the return; not before `called_at`.
    pub returned_at: u64,
}

/// Guarantee of a limit, per key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// At most `burst + floor(rate × T)` in any span T.
    TokenBucket {
        /// Refill rate.
        rate: ExactRate,
        /// Tokens in a full bucket.
        burst: u64,
    },
    /// At most `limit` in any half-open span of `window` nanoseconds.
    AnyWindow {
        /// Maximum cost.
        limit: u64,
        /// Length of the span in nanoseconds.
        window: u64,
    },
    /// At most `limit` in each window. Windows begin at multiples of `window` after `phase` is added to the
    /// clock.
    AlignedWindow {
        /// Maximum cost per window.
        limit: u64,
        /// Window length in nanoseconds.
        window: u64,
        /// Offset of clock zero within a window.
        phase: u64,
    },
}

/// Assumption about the time of each decision within its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckMode {
    /// Most favourable time for the limiter: only a proven violation is reported.
    Proof,
    /// Each decision happened exactly at this edge of its call.
    AssumeAt(CallEdge),
}

/// Start or end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEdge {
    /// Time of the call.
    Called,
    /// Time of the return.
    Returned,
}

/// Statistics of a history that satisfies its guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Summary {
    /// Number of distinct keys.
    pub keys: usize,
    /// Number of admitted calls.
    pub admitted: usize,
    /// Number of refused calls.
    pub refused: usize,
    /// Total admitted cost.
    pub cost: u128,
}

/// Violated guarantee and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyViolation<K> {
    /// Key with the violation.
    pub key: K,
    /// Violated span and excess.
    pub violation: Violation,
}

impl<K: fmt::Debug> fmt::Display for KeyViolation<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {:?}: {}", self.key, self.violation)
    }
}

impl<K: fmt::Debug> std::error::Error for KeyViolation<K> {}

/// Checks every key of a history. The calls may be in any order.
pub fn check<K: Ord + Clone>(
    calls: &[Call<K>],
    guarantee: &Guarantee,
    mode: CheckMode,
) -> Result<Summary, KeyViolation<K>> {
    let mut admitted: Vec<&Call<K>> = calls.iter().filter(|call| call.admitted && call.cost > 0).collect();
    admitted.sort_by(|a, b| a.key.cmp(&b.key));
    for one_key in admitted.chunk_by(|a, b| a.key == b.key) {
        let intervals: Vec<Interval> = one_key.iter().map(|call| Interval::of(call)).collect();
        let verdict = match mode {
            CheckMode::Proof => prove(&intervals, guarantee),
            CheckMode::AssumeAt(edge) => check_at(&intervals, guarantee, edge),
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

/// Permit as seen by its holder: acquired by one call, released by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PermitInterval<K> {
    /// Key of the permit.
    pub key: K,
    /// Number of permits.
    pub cost: u64,
    /// Return time of the acquiring call: the permit is certainly held from here on.
    pub granted_at: u64,
    /// Time of the releasing call: the permit is certainly held until here. `u64::MAX` if never released.
    pub released_at: u64,
}

/// Checks that at no time more than `limit` permits of a key were certainly held.
pub fn check_permits<K: Ord + Clone>(permits: &[PermitInterval<K>], limit: u64) -> Result<(), KeyViolation<K>> {
    let mut sorted: Vec<&PermitInterval<K>> = permits.iter().collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    for one_key in sorted.chunk_by(|a, b| a.key == b.key) {
        let hold = |permit: &&PermitInterval<K>| HoldInterval {
            from: permit.granted_at,
            until: permit.released_at,
            cost: permit.cost,
        };
        let holds: Vec<HoldInterval> = one_key.iter().map(hold).collect();
        bound::concurrency(&holds, limit)
            .map_err(|violation| KeyViolation { key: one_key[0].key.clone(), violation })?;
    }
    Ok(())
}

/// Interval that contains the decision time of an admission, both ends included.
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

fn prove(intervals: &[Interval], guarantee: &Guarantee) -> Result<(), Violation> {
    match *guarantee {
        Guarantee::TokenBucket { rate, burst } => demand::token_bucket(intervals, rate, burst),
        Guarantee::AnyWindow { limit, window } => demand::any_window(intervals, limit, window),
        Guarantee::AlignedWindow { limit, window, phase } => {
            let window_index = |at: u64| (u128::from(at) + u128::from(phase)) / u128::from(window);
            let certain = intervals.iter().filter(|interval| window_index(interval.from) == window_index(interval.to));
            let history: Vec<_> =
                certain.map(|interval| AdmissionEvent { at: interval.from, cost: interval.cost }).collect();
            bound::aligned_window(&history, limit, window, phase)
        }
    }
}

fn check_at(intervals: &[Interval], guarantee: &Guarantee, edge: CallEdge) -> Result<(), Violation> {
    let at = |interval: &Interval| match edge {
        CallEdge::Called => interval.from,
        CallEdge::Returned => interval.to,
    };
    let history: Vec<_> =
        intervals.iter().map(|interval| AdmissionEvent { at: at(interval), cost: interval.cost }).collect();
    match *guarantee {
        Guarantee::TokenBucket { rate, burst } => bound::token_bucket(&history, rate, burst),
        Guarantee::AnyWindow { limit, window } => bound::any_window(&history, limit, window),
        Guarantee::AlignedWindow { limit, window, phase } => bound::aligned_window(&history, limit, window, phase),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(node: u32, key: u64, cost: u64, called_at: u64, returned_at: u64) -> Call<u64> {
        Call { node, key, cost, admitted: true, called_at, returned_at }
    }

    #[test]
    fn keys_are_checked_separately_and_nodes_combined() {
        let guarantee = Guarantee::TokenBucket { rate: ExactRate::per_second(1), burst: 5 };
        let separate_keys = [call(0, 1, 5, 0, 1), call(0, 2, 5, 0, 1)];
        let same_key = [call(0, 1, 5, 0, 1), call(1, 1, 5, 0, 1)];
        let summary = check(&separate_keys, &guarantee, CheckMode::Proof).unwrap();
        assert_eq!(summary, Summary { keys: 2, admitted: 2, refused: 0, cost: 10 });
        assert_eq!(check(&same_key, &guarantee, CheckMode::Proof).unwrap_err().violation.admitted, 10);
    }

    #[test]
    fn refused_and_zero_cost_calls_do_not_count() {
        let guarantee = Guarantee::AnyWindow { limit: 1, window: 1_000 };
        let refused = Call { admitted: false, ..call(0, 1, 9, 0, 1) };
        let summary =
            check(&[call(0, 1, 1, 0, 1), refused, call(0, 1, 0, 0, 1)], &guarantee, CheckMode::Proof).unwrap();
        assert_eq!((summary.admitted, summary.refused, summary.cost), (2, 1, 1));
    }

    #[test]
    fn an_interval_across_a_window_edge_proves_nothing() {
        let guarantee = Guarantee::AlignedWindow { limit: 5, window: 1_000, phase: 0 };
        assert!(check(&[call(0, 1, 5, 900, 950), call(0, 1, 5, 990, 1_010)], &guarantee, CheckMode::Proof).is_ok());
        assert!(check(&[call(0, 1, 5, 900, 950), call(0, 1, 5, 990, 999)], &guarantee, CheckMode::Proof).is_err());
    }

    #[test]
    fn a_permit_counts_only_while_certainly_held() {
        let permit = |granted_at, released_at| PermitInterval { key: 1, cost: 1, granted_at, released_at };
        assert!(check_permits(&[permit(0, 10), permit(10, u64::MAX)], 1).is_ok());
        assert!(check_permits(&[permit(0, 11), permit(10, u64::MAX)], 1).is_err());
    }

    #[test]
    fn a_million_calls_are_checked_quickly() {
        let calls: Vec<_> = (0..1_000_000u64).map(|i| call(0, i % 3, 1, i * 1_000, i * 1_000 + 7_000)).collect();
        let rate = ExactRate::per_second(400_000);
        assert!(check(&calls, &Guarantee::TokenBucket { rate, burst: 10 }, CheckMode::Proof).is_ok());
        assert!(check(&calls, &Guarantee::AnyWindow { limit: 335, window: 1_000_000 }, CheckMode::Proof).is_ok());
    }
}
