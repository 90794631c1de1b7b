//! Generic cell rate algorithm (GCRA): a token bucket stored as one number.
//!
//! The state is not a token count refilled by a timer but the *theoretical arrival time*: the time at which
//! the bucket will be full again. Taking `n` tokens moves it `n` emission intervals into the future; passing
//! time refills implicitly. The bucket is full when that time has passed, and empty when it lies a whole burst
//! ahead.
//!
//! **Units.** Sixteenths of a nanosecond. Whole nanoseconds would round the interval of 700 million per second
//! from 1.43 to 2 and lose a third of the rate. The interval is always rounded up, so rounding can only refuse
//! more, never admit more.
//!
//! **Guarantee.** In any span T at most `burst + floor(rate × T)` is admitted. Proof: each admission of cost c
//! moves the arrival time by c intervals from a point that is not before `now`, and is only made if the result
//! is at most `now + burst` intervals. Over a span T starting at `t`, the arrival time starts no earlier than
//! `t` and ends no later than `t + T + burst` intervals. A clock that steps back makes `now` smaller and the
//! test stricter.

use super::store_form::{MAX_NUMBER, StoreFormError};
use crate::quota::{LimitError, Rate};
use crate::time::{Timestamp, saturating_nanos};

/// Ticks per nanosecond; the arrival time is in ticks.
pub const TICKS_PER_NANO: u64 = 16;

/// Maximum time to fill a bucket, in ticks: about four and a half years, so that sums stay in 64 bits.
const MAX_FILL_TICKS: u64 = 1 << 61;

/// Last distinguishable tick, in 2058. A later clock value saturates here, with room for a whole fill ahead:
/// the bucket empties and stays empty. Without that room the arrival time could not advance, and the bucket
/// would admit everything.
pub(crate) const LAST_TICK: u64 = u64::MAX - MAX_FILL_TICKS;

/// Parameters of one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    /// Ticks per token, rounded up.
    interval: u64,
    /// Tokens in a full bucket.
    burst: u64,
    /// `interval * burst`.
    tolerance: u64,
}

/// Ticks at a timestamp, at most [`LAST_TICK`].
#[inline]
pub(crate) const fn ticks(now: Timestamp) -> u64 {
    const LAST_NANO: u64 = LAST_TICK / TICKS_PER_NANO;
    let nanos = now.as_nanos();
    if nanos < LAST_NANO { nanos * TICKS_PER_NANO } else { LAST_TICK }
}

/// Ticks in nanoseconds, rounded up.
#[inline]
pub(crate) const fn nanos_covering(ticks: u64) -> u64 {
    ticks.div_ceil(TICKS_PER_NANO)
}

impl Gcra {
    /// Bucket of `burst` tokens refilled at `rate`.
    pub fn new(rate: Rate, burst: u64, burst_field: &'static str) -> Result<Self, LimitError> {
        if burst == 0 {
            return Err(LimitError::zero(burst_field));
        }
        let period = u128::from(saturating_nanos(rate.period())) * u128::from(TICKS_PER_NANO);
        let exact = period.div_ceil(u128::from(rate.count()));
        // Rounding up by part of a tick costs at most 1/interval of the rate: 10 % at ten ticks.
        if exact < 10 {
            return Err(LimitError::RateTooHigh { rate });
        }
        let interval = u64::try_from(exact).unwrap_or(u64::MAX);
        match interval.checked_mul(burst) {
            Some(tolerance) if tolerance <= MAX_FILL_TICKS => Ok(Self { interval, burst, tolerance }),
            _ => Err(LimitError::FillsTooSlowly { field: burst_field, rate, burst }),
        }
    }

    /// Tokens in a full bucket.
    #[inline]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Ticks per token.
    #[inline]
    pub const fn interval(&self) -> u64 {
        self.interval
    }

    /// Ticks from empty to full.
    #[inline]
    pub const fn tolerance(&self) -> u64 {
        self.tolerance
    }

    /// Arrival time after admitting `cost` at `now` (in ticks), or the number of ticks it is too early.
    ///
    /// `cost` must not exceed the burst.
    #[inline]
    pub const fn admit(&self, arrival: u64, now: u64, cost: u64) -> Result<u64, u64> {
        let span = cost * self.interval;
        let (owed, room) = (arrival.saturating_sub(now), self.tolerance - span);
        if owed > room {
            return Err(owed - room);
        }
        let base = if arrival > now { arrival } else { now };
        Ok(base.saturating_add(span))
    }

    /// Time at which the bucket is full: `arrival` has passed. `u64::MAX` if no clock gets there.
    #[inline]
    pub(crate) const fn full_at(arrival: u64) -> Timestamp {
        Timestamp::from_nanos(if arrival > LAST_TICK { u64::MAX } else { nanos_covering(arrival) })
    }

    /// Arrival time after a refund of `span` ticks. A saturated arrival time no longer shows how much was taken,
    /// so nothing is refunded then.
    #[inline]
    pub(crate) const fn give_back(arrival: u64, span: u64) -> u64 {
        if arrival == u64::MAX { arrival } else { arrival.saturating_sub(span) }
    }

    /// Tokens available at `now` (in ticks).
    #[inline]
    pub const fn remaining(&self, arrival: u64, now: u64) -> u64 {
        let owed = arrival.saturating_sub(now);
        self.tolerance.saturating_sub(owed) / self.interval
    }

    /// Tokens charged beyond an empty bucket.
    pub(crate) const fn overdraft(&self, arrival: u64, now: u64) -> u64 {
        arrival.saturating_sub(now).saturating_sub(self.tolerance).div_ceil(self.interval)
    }

    /// Parameters of the script of a shared store. They end with a flag for a leaky bucket.
    pub(super) fn store_numbers(&self, leaky: bool) -> Result<Vec<f64>, StoreFormError> {
        /// Ticks per microsecond, the store's unit of time.
        const TICKS_PER_MICRO: u64 = 1_000 * TICKS_PER_NANO;
        let fraction = self.interval % TICKS_PER_MICRO;
        if self.burst > MAX_NUMBER || self.burst.checked_mul(fraction).is_none_or(|ticks| ticks > MAX_NUMBER) {
            return Err(StoreFormError("burst"));
        }
        let numbers = [
            self.interval / TICKS_PER_MICRO,
            fraction,
            self.burst,
            self.interval,
            self.tolerance / TICKS_PER_MICRO,
            self.tolerance % TICKS_PER_MICRO,
            u64::from(leaky),
        ];
        Ok(numbers.map(|number| number as f64).into())
    }

    /// Ticks for `cost` tokens; saturating, for costs not checked against the burst.
    #[inline]
    pub const fn span(&self, cost: u64) -> u64 {
        cost.saturating_mul(self.interval)
    }
}
