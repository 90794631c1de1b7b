//! Rate limiting algorithms: pure functions of (state, now, cost), one file each.
//!
//! An algorithm does not own its state. It gets a few 64-bit words and reports if a cost fits now
//! ([`Algorithm::check`], which changes nothing) and updates the words once the cost is admitted
//! ([`Algorithm::commit`]). The owner of the words chooses the synchronization: one compare-and-swap for an
//! unkeyed token bucket, one bucket lock of the table for a key with several limits. Because check and commit
//! are separate, a refusal cannot change state, and several limits can be decided all or nothing.
//!
//! All words zero is the fresh state of every algorithm: a key that was never seen, or one that has fully
//! recovered. Evicting such a key therefore loses nothing.
//!
//! | algorithm | words | bound |
//! |---|---|---|
//! | [`TokenBucket`] | 1 (2 with reservations) | at most B + r·T in any T |
//! | [`LeakyBucket`] | 1 | departures at least 1/r apart |
//! | [`FixedWindow`] | 2 | at most L per window, 2L in the worst span of one window |
//! | [`SlidingWindow`] | 2 and up | at most L in any window |
//! | [`InterpolatedWindow`] | 3 | approximate: an adversary can reach almost 2L |
//! | [`SlidingLog`] | L + 1 | at most L in any window, exactly |
//! | [`Concurrency`] | 1 | never more than N in flight |
//! | [`WarmUp`] | 2 | gaps of at least 1/r, three times that when cold |

pub mod bandwidth;
pub mod concurrency;
mod counter_ring;
mod description;
pub mod fixed_window;
pub mod gcra;
pub mod interpolated_window;
pub mod leaky_bucket;
pub mod sliding_log;
pub mod sliding_window;
pub mod store_form;
pub mod token_bucket;
pub mod warm_up;

pub use bandwidth::Bandwidth;
pub use concurrency::Concurrency;
pub use description::{
    Describe, Description, Imprecision, LeaseForm, LimitArguments, LimitUnit, MAX_PARAMETERS, NodeShare, Pacing,
    Parameter, ParameterKind, ParameterValue, Share,
};
pub use fixed_window::{Alignment, FixedWindow};
pub use interpolated_window::InterpolatedWindow;
pub use leaky_bucket::LeakyBucket;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;
pub use warm_up::WarmUp;

use crate::time::Timestamp;

/// The algorithms: the one list that everything else is generated from. Each line has the description of its
/// variant of `Limit`, the type, and the name of its script in the shared store (`crates/cluster/src/scripts/`).
#[macro_export]
#[doc(hidden)]
macro_rules! for_each_algorithm {
    ($then:ident $([$($context:tt)*])?) => {
        $then! {
            $([$($context)*])?
            /// Rate with a burst.
            TokenBucket "bucket";
            /// Bounded queue drained at a constant rate.
            LeakyBucket "bucket";
            /// Count per window.
            FixedWindow "fixed_window";
            /// Count in any window, strict.
            SlidingWindow "sliding_window";
            /// Approximate count in any window, cheap.
            InterpolatedWindow "interpolated_window";
            /// Count in any window, exact, with one entry per request.
            SlidingLog "sliding_log";
            /// Maximum number in flight.
            Concurrency "concurrency";
            /// Token bucket of bytes.
            Bandwidth "bucket";
            /// Paced rate with a cold start.
            WarmUp "warm_up";
        }
    };
}

/// [`Algorithm::full_at`] of a state that must never be evicted.
pub const NEVER_FULL: Timestamp = Timestamp::from_nanos(u64::MAX);

/// Timestamp for window arithmetic: the last representable nanosecond becomes the one before it, so that
/// every window ends after every timestamp and every window number has a successor.
#[inline]
const fn nanos(now: Timestamp) -> u64 {
    let nanos = now.as_nanos();
    if nanos == u64::MAX { nanos - 1 } else { nanos }
}

/// Admission mode of a limit that can pace its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmitMode {
    /// Reserve a queue slot now and report the wait until departure ([`Check::After`]).
    Reserve,
    /// Admit only if the request can depart now. Used for callers queued inside the process: their order is
    /// kept by a wait queue, which a cancelled caller can leave.
    Immediate,
}

/// Result of checking one cost at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Fits now.
    Now,
    /// Fits, but the caller must wait this many nanoseconds before it proceeds.
    After(u64),
    /// Does not fit yet; fits in exactly this many nanoseconds if no other request arrives.
    NotBefore(u64),
    /// Does not fit until other callers release permits or reservations; the time is unknown.
    Held,
    /// Never fits: the cost exceeds the limit itself.
    Never,
}

impl Check {
    /// Order of strictness: longer waits are worse, an unknown wait is worse than any known one, never is worst.
    #[inline]
    pub(crate) const fn severity(self) -> u128 {
        const KIND: u128 = 1 << 64;
        match self {
            Self::Now => 0,
            Self::After(pause) => KIND + pause as u128,
            Self::NotBefore(wait) => 2 * KIND + wait as u128,
            Self::Held => 3 * KIND,
            Self::Never => 4 * KIND,
        }
    }
}

/// Status of a limit, as needed by wire formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Maximum available at once.
    pub limit: u64,
    /// Available now.
    pub remaining: u64,
    /// Nanoseconds until the full limit is available again if no other request arrives.
    pub reset: u64,
}

/// Charge on one limit, kept to settle or refund it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitCharge {
    /// Time of the charge.
    pub at: Timestamp,
    /// Cost charged.
    pub cost: u64,
    /// Result of [`Algorithm::commit`]: identifies the window, cell or arrival time of the charge.
    pub mark: u64,
    /// Set if the charge is a reservation that is still open.
    pub reserved: bool,
}

/// A rate limiting algorithm. See the module documentation for the contract between these functions.
///
/// Every `state` slice has exactly [`Algorithm::words`] words.
pub trait Algorithm {
    /// Size of the state in 64-bit words.
    fn words(&self) -> usize;

    /// Checks if `cost` fits at `now`. A cost of zero always fits: it only reads the state.
    fn check(&self, state: &[u64], now: Timestamp, cost: u64, mode: AdmitMode) -> Check;

    /// Charges `cost`, even if it does not fit; call it after [`Algorithm::check`] admitted the cost. `hold`
    /// marks the charge as a reservation to be settled later. Returns the mark for [`LimitCharge`].
    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, hold: bool) -> u64;

    /// Corrects a charge to its actual cost: refunds the difference, or charges it even if it does not fit.
    /// Never leaves more available than if `actual` had been charged in the first place.
    fn settle(&self, state: &mut [u64], taken: LimitCharge, actual: u64, now: Timestamp);

    /// Refunds an amount charged at an unknown earlier time, at most the current usage. Algorithms that keep
    /// timestamps refund the units that expire soonest, so nothing is available earlier than with exact refunds.
    fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64);

    /// Status at `now`.
    fn status(&self, state: &[u64], now: Timestamp) -> Status;

    /// Time at which this state equals the fresh state; [`NEVER_FULL`] while permits or reservations are held.
    fn full_at(&self, state: &[u64]) -> Timestamp;

    /// Makes `into` at least as strict as both states. Used for keys that must share one state.
    ///
    /// Permits and reservations can be settled in the merged state as before. Other earlier charges must not be
    /// refunded there: the merged state does not identify their owners.
    fn merge(&self, into: &mut [u64], from: &[u64]);

    /// Merges two copies of one key's state: holdings are the same in both and count once.
    fn merge_copies(&self, into: &mut [u64], from: &[u64]) {
        self.merge(into, from);
    }

    /// Prepares a state that evicted keys shared for a new key: a window that starts at first use starts now.
    fn restart(&self, _state: &mut [u64], _now: Timestamp) {}

    /// Resources that a request holds until it ends.
    fn holding(&self) -> Option<HoldingKind> {
        None
    }

    /// Releases an amount that a request held.
    fn release(&self, _state: &mut [u64], _amount: u64, _now: Timestamp) {}

    /// Clears everything but holdings: their holders will release them.
    fn clear_unheld(&self, state: &mut [u64], _now: Timestamp) {
        state.fill(0);
    }

    /// Clears all holdings: after a restart they have no holders.
    fn clear_holdings(&self, _state: &mut [u64]) {}

    /// Quota that is left for a limit that replaces this one.
    fn leftover(&self, state: &[u64], now: Timestamp) -> Leftover {
        Leftover::of(self, state, now)
    }

    /// Starts a fresh state with the quota that the replaced limit left, and no more.
    fn start_with(&self, state: &mut [u64], leftover: Leftover, now: Timestamp) {
        leftover.charge(self, state, now);
    }
}

/// Resources that a request holds until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldingKind {
    /// Permits of a concurrency limit.
    Permits,
    /// Reserved tokens.
    Tokens,
}

/// Quota that is left of a limit when another one replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Remaining quota; `None` if the algorithm has none and only the wait counts.
    pub remaining: Option<u64>,
    /// Amount charged beyond the limit.
    pub overdraft: u64,
    /// Nanoseconds until the next request is admitted.
    pub wait: u64,
    /// Tokens outstanding in reservations.
    pub outstanding: u64,
}

impl Leftover {
    fn of<A: Algorithm + ?Sized>(algorithm: &A, state: &[u64], now: Timestamp) -> Self {
        let wait = match algorithm.check(state, now, 1, AdmitMode::Immediate) {
            Check::NotBefore(wait) => wait,
            _ => 0,
        };
        Self { remaining: Some(algorithm.status(state, now).remaining), overdraft: 0, wait, outstanding: 0 }
    }

    /// Charges a fresh state with what is missing.
    fn charge<A: Algorithm + ?Sized>(&self, algorithm: &A, state: &mut [u64], now: Timestamp) {
        let capacity = algorithm.status(state, now).limit;
        let taken = match self.remaining {
            Some(left) => capacity.saturating_sub(left).saturating_add(self.overdraft),
            // The new limit starts with one request, or none.
            None => capacity.saturating_sub(u64::from(self.wait == 0)),
        };
        algorithm.commit(state, now, taken, false);
        if taken == 0 {
            // Full but not fresh: the next change must not treat it as unused.
            let mark = algorithm.commit(state, now, 1, false);
            algorithm.settle(state, LimitCharge { at: now, cost: 1, mark, reserved: false }, 0, now);
        }
    }
}
