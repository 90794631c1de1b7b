//! The algorithms: pure functions of (state, now, cost), one file each.
//!
//! An algorithm never owns its state. It is handed a few 64-bit words and answers whether a cost
//! fits now ([`Algorithm::check`], which changes nothing), and what the words become once it is
//! admitted ([`Algorithm::commit`]). Whoever holds the words decides how they are guarded: one
//! compare-and-swap for an unkeyed token bucket, one bucket lock of the table for a key with several
//! limits. Because checking is separate from committing, a refusal cannot change state, and several
//! limits can be decided all or nothing.
//!
//! All words zero is the fresh state of every algorithm: a key that was never seen, or one that has
//! had time to recover completely. That is why forgetting such a key loses nothing.
//!
//! | algorithm | words | bound |
//! |---|---|---|
//! | [`TokenBucket`] | 1 (2 with reservations) | at most B + r·T in any T |
//! | [`LeakyBucket`] | 1 | departures at least 1/r apart |
//! | [`FixedWindow`] | 2 | at most L per window, 2L in the worst span of one window |
//! | [`SlidingWindow`] | 2 and up | at most L in any window |
//! | [`InterpolatedWindow`] | 3 | approximate: an adversary can reach almost 2L |
//! | [`SlidingLog`] | L + 1 | at most L in any window, exactly |
//! | [`Concurrency`] | 1 | never more than N at once |
//! | [`WarmUp`] | 2 | gaps of at least 1/r, three times that when cold |

mod cells;
pub mod concurrency;
pub mod fixed_window;
pub mod gcra;
pub mod interpolated_window;
pub mod leaky_bucket;
pub mod sliding_log;
pub mod sliding_window;
pub mod token_bucket;
pub mod warm_up;

pub use concurrency::Concurrency;
pub use fixed_window::{Alignment, FixedWindow};
pub use interpolated_window::InterpolatedWindow;
pub use leaky_bucket::LeakyBucket;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;
pub use warm_up::WarmUp;

use std::time::Duration;

use crate::decision::Verdict;
use crate::time::{Timestamp, saturating_nanos};

/// [`Algorithm::full_at`] of a state that must not be forgotten, however long it takes.
pub const NEVER_FULL: Timestamp = Timestamp::from_nanos(u64::MAX);

/// A moment as windows count it: the very last nanosecond is taken for the one before, so that every
/// window ends after every moment and its number has a successor.
#[inline]
const fn nanos(now: Timestamp) -> u64 {
    let nanos = now.as_nanos();
    if nanos == u64::MAX { nanos - 1 } else { nanos }
}

/// How a caller enters a limit that can pace its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Take a place in line now and be told how long to wait for the turn ([`Check::After`]).
    Enqueue,
    /// Be admitted only if the turn has come. This is how callers that wait inside the process ask:
    /// their line is kept by the wait room, where a cancelled caller can leave it again.
    Depart,
}

/// What an algorithm says of one cost at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Fits now.
    Now,
    /// Fits, but the caller must pause for so many nanoseconds before going on.
    After(u64),
    /// Does not fit yet; it would in exactly so many nanoseconds if nobody else came.
    NotBefore(u64),
    /// Does not fit until somebody gives back what they hold; no clock can tell when.
    Held,
    /// Can never fit: more than the limit itself.
    Never,
}

impl Check {
    /// The later, the worse; what no clock can promise is worse than any wait, never is worst.
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

    /// What a caller is told.
    #[inline]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::Now => Verdict::Allowed,
            Self::After(pause) => Verdict::Wait(Duration::from_nanos(pause)),
            Self::NotBefore(wait) => Verdict::Denied { retry_after: Some(Duration::from_nanos(wait)) },
            Self::Held => Verdict::Denied { retry_after: None },
            Self::Never => Verdict::Never,
        }
    }
}

impl From<Verdict> for Check {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Allowed => Self::Now,
            Verdict::Wait(pause) => Self::After(saturating_nanos(pause)),
            Verdict::Denied { retry_after: Some(wait) } => Self::NotBefore(saturating_nanos(wait)),
            Verdict::Denied { retry_after: None } => Self::Held,
            Verdict::Never => Self::Never,
        }
    }
}

/// How much of a limit is left, as wire formats want to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The most that can be had at once.
    pub limit: u64,
    /// What could be had now.
    pub remaining: u64,
    /// Nanoseconds until everything is available again if nobody comes.
    pub reset: u64,
}

/// What was taken earlier, so that it can be settled or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// When it was taken.
    pub at: Timestamp,
    /// How much was taken.
    pub cost: u64,
    /// The word [`Algorithm::commit`] answered: which window, cell or arrival time it went to.
    pub mark: u64,
    /// Whether it was taken as a reservation that is still out.
    pub held: bool,
}

/// One way to limit. See the module's head for the contract between these functions.
///
/// Every `state` slice has exactly [`Algorithm::words`] words.
pub trait Algorithm {
    /// Size of the state in 64-bit words.
    fn words(&self) -> usize;

    /// Whether `cost` fits at `now`. A cost of zero always does: it is a look, not a request.
    fn check(&self, state: &[u64], now: Timestamp, cost: u64, entry: Entry) -> Check;

    /// Takes `cost`, whether it fits or not; call after [`Algorithm::check`] admitted it. `hold`
    /// marks it as a reservation to be settled later. Answers the mark for [`Taken`].
    fn commit(&self, state: &mut [u64], now: Timestamp, cost: u64, hold: bool) -> u64;

    /// Corrects what was taken to what it really cost: gives back the difference, or charges it
    /// even if it does not fit. Never leaves more available than if `actual` had been taken in the
    /// first place.
    fn settle(&self, state: &mut [u64], taken: Taken, actual: u64, now: Timestamp);

    /// Gives back what somebody took before, nobody knows when; never more than what counts. Where moments are told
    /// apart, what counts the shortest goes first: so nothing is free sooner than if the right ones had gone.
    fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64);

    /// What is left at `now`.
    fn status(&self, state: &[u64], now: Timestamp) -> Status;

    /// From when on this state is the same as the fresh one; [`NEVER_FULL`] while something is held.
    fn full_at(&self, state: &[u64]) -> Timestamp;

    /// Makes `into` at least as strict as both were. Used where two keys must share one state.
    ///
    /// What is held (permits, reservations) may be settled in the merged state as before. Anything else
    /// taken before must not be given back there: the merged state no longer tells whose it was.
    fn merge(&self, into: &mut [u64], from: &[u64]);
}
