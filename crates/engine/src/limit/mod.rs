//! Limits: an algorithm with its validated parameters.
//!
//! A [`Limit`] is constructed by name or parsed from its short form, and is always valid: zero rates, empty
//! windows and overflowing numbers are rejected on construction, with the offending field and the remedy.
//!
//! ```
//! use sluicegate_engine::{Limit, Rate};
//!
//! let strict: Limit = "300/1m".parse()?;               // never more than 300 in any minute
//! let bucket = Limit::token_bucket(Rate::per_second(10)?, 20)?;
//! assert_eq!(strict.to_string(), "sliding_window 300/1m, 10 cells");
//! assert_eq!(bucket.to_string(), "token_bucket 10/s, burst 20");
//! # Ok::<(), sluicegate_engine::LimitError>(())
//! ```

pub(crate) mod encoding;
mod error;
pub mod parse;
mod rate;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use error::LimitError;
pub use rate::Rate;

use crate::algorithm::{
    Algorithm, Alignment, Concurrency, FixedWindow, InterpolatedWindow, LeakyBucket, SlidingLog, SlidingWindow,
    TokenBucket, WarmUp,
};
use crate::time::saturating_nanos;
use parse::{HumanBytes, HumanDuration};

/// Default number of cells of a sliding window.
pub const DEFAULT_CELLS: u32 = 10;

/// Maximum window: ten years.
const MAX_WINDOW: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A limit: one algorithm with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// Rate with a burst.
    TokenBucket(TokenBucket),
    /// Bounded queue drained at a constant rate.
    LeakyBucket(LeakyBucket),
    /// Count per window.
    FixedWindow(FixedWindow),
    /// Count in any window, strict.
    SlidingWindow(SlidingWindow),
    /// Approximate count in any window, cheap.
    InterpolatedWindow(InterpolatedWindow),
    /// Count in any window, exact, with one entry per request.
    SlidingLog(SlidingLog),
    /// Maximum number in flight.
    Concurrency(Concurrency),
    /// Token bucket of bytes.
    Bandwidth(TokenBucket),
    /// Paced rate with a cold start.
    WarmUp(WarmUp),
}

/// Evaluates the same expression for the algorithm of any limit.
macro_rules! each_algorithm {
    ($limit:expr, $algorithm:ident => $body:expr) => {
        match $limit {
            $crate::Limit::TokenBucket($algorithm) | $crate::Limit::Bandwidth($algorithm) => $body,
            $crate::Limit::LeakyBucket($algorithm) => $body,
            $crate::Limit::FixedWindow($algorithm) => $body,
            $crate::Limit::SlidingWindow($algorithm) => $body,
            $crate::Limit::InterpolatedWindow($algorithm) => $body,
            $crate::Limit::SlidingLog($algorithm) => $body,
            $crate::Limit::Concurrency($algorithm) => $body,
            $crate::Limit::WarmUp($algorithm) => $body,
        }
    };
}
pub(crate) use each_algorithm;

impl Limit {
    /// Burst of `burst` tokens, refilled at `rate`.
    pub fn token_bucket(rate: Rate, burst: u64) -> Result<Self, LimitError> {
        TokenBucket::new(rate, burst).map(Self::TokenBucket)
    }

    /// Queue of at most `queue` requests, drained at `rate`.
    pub fn leaky_bucket(rate: Rate, queue: u64) -> Result<Self, LimitError> {
        LeakyBucket::new(rate, queue).map(Self::LeakyBucket)
    }

    /// At most `limit` per window, aligned by `alignment`.
    pub fn fixed_window(limit: u64, window: Duration, alignment: Alignment) -> Result<Self, LimitError> {
        FixedWindow::new(limit, window, alignment).map(Self::FixedWindow)
    }

    /// At most `limit` in any `window`, counted in `cells` cells.
    pub fn sliding_window(limit: u64, window: Duration, cells: u32) -> Result<Self, LimitError> {
        SlidingWindow::new(limit, window, cells).map(Self::SlidingWindow)
    }

    /// About `limit` per `window`; cheaper than the sliding window and not strict.
    pub fn interpolated_window(limit: u64, window: Duration) -> Result<Self, LimitError> {
        InterpolatedWindow::new(limit, window).map(Self::InterpolatedWindow)
    }

    /// At most `limit` in any `window`, exact.
    pub fn sliding_log(limit: u64, window: Duration) -> Result<Self, LimitError> {
        SlidingLog::new(limit, window).map(Self::SlidingLog)
    }

    /// At most `limit` in flight.
    pub fn concurrency(limit: u64) -> Result<Self, LimitError> {
        Concurrency::new(limit).map(Self::Concurrency)
    }

    /// `rate` in bytes, with a burst of `burst` bytes.
    pub fn bandwidth(rate: Rate, burst: u64) -> Result<Self, LimitError> {
        TokenBucket::new(rate, burst).map(Self::Bandwidth)
    }

    /// `rate` once warm, reached after `warm_up` from a gap `cold_factor` times as long.
    pub fn warm_up(rate: Rate, warm_up: Duration, cold_factor: u32) -> Result<Self, LimitError> {
        WarmUp::new(rate, warm_up, cold_factor).map(Self::WarmUp)
    }

    /// Name of the algorithm in rule files.
    pub const fn algorithm(&self) -> &'static str {
        match self {
            Self::TokenBucket(_) => "token_bucket",
            Self::LeakyBucket(_) => "leaky_bucket",
            Self::FixedWindow(_) => "fixed_window",
            Self::SlidingWindow(_) => "sliding_window",
            Self::InterpolatedWindow(_) => "interpolated_window",
            Self::SlidingLog(_) => "sliding_log",
            Self::Concurrency(_) => "concurrency",
            Self::Bandwidth(_) => "bandwidth",
            Self::WarmUp(_) => "warm_up",
        }
    }

    /// True for a concurrency limit, which only the permit's holder can release.
    pub const fn is_concurrency(&self) -> bool {
        matches!(self, Self::Concurrency(_))
    }

    /// Maximum available at once: burst, queue, limit or permits.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::TokenBucket(limit) | Self::Bandwidth(limit) => limit.burst(),
            Self::LeakyBucket(limit) => limit.queue(),
            Self::FixedWindow(limit) => limit.limit(),
            Self::SlidingWindow(limit) => limit.limit(),
            Self::InterpolatedWindow(limit) => limit.limit(),
            Self::SlidingLog(limit) => limit.limit(),
            Self::Concurrency(limit) => limit.limit(),
            Self::WarmUp(_) => u64::MAX,
        }
    }

    /// Time span of the limit: its window, or the time its burst or queue takes at its rate. `None` for
    /// concurrency limits.
    pub fn window(&self) -> Option<Duration> {
        match self {
            Self::TokenBucket(limit) | Self::Bandwidth(limit) => Some(limit.rate().time_for(limit.burst())),
            Self::LeakyBucket(limit) => Some(limit.rate().time_for(limit.queue())),
            Self::FixedWindow(limit) => Some(limit.window()),
            Self::SlidingWindow(limit) => Some(limit.window()),
            Self::InterpolatedWindow(limit) => Some(limit.window()),
            Self::SlidingLog(limit) => Some(limit.window()),
            Self::Concurrency(_) => None,
            Self::WarmUp(limit) => Some(limit.rate().period()),
        }
    }

    /// True if earlier charges can be refunded.
    pub(crate) const fn is_refundable(&self) -> bool {
        !matches!(self, Self::LeakyBucket(_) | Self::WarmUp(_) | Self::Concurrency(_))
    }

    /// The same limit with a word for reservations, if it is a token bucket.
    pub(crate) fn reservable(self) -> Self {
        match self {
            Self::TokenBucket(bucket) => Self::TokenBucket(bucket.reservable()),
            Self::Bandwidth(bucket) => Self::Bandwidth(bucket.reservable()),
            other => other,
        }
    }

    /// Words of state per key.
    pub(crate) fn words(&self) -> usize {
        each_algorithm!(self, algorithm => algorithm.words())
    }
}

/// Parses the short form: `300/1m` is a strict sliding window.
impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let rate: Rate = text.parse()?;
        let window = saturating_nanos(rate.period());
        let cells = u32::try_from(window).unwrap_or(u32::MAX).min(DEFAULT_CELLS);
        Self::sliding_window(rate.count(), rate.period(), cells)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.algorithm();
        let window = |count: u64, window: Duration| format!("{count}/{}", HumanDuration(window));
        match self {
            Self::TokenBucket(limit) => {
                write!(f, "{name} {}, burst {}", limit.rate(), limit.burst())
            }
            Self::LeakyBucket(limit) => {
                write!(f, "{name} {}, queue {}", limit.rate(), limit.queue())
            }
            Self::FixedWindow(limit) => {
                write!(f, "{name} {}", window(limit.limit(), limit.window()))?;
                match limit.alignment() {
                    Alignment::Epoch => Ok(()),
                    Alignment::FirstUse => f.write_str(", from first use"),
                }
            }
            Self::SlidingWindow(limit) => {
                write!(f, "{name} {}, {} cells", window(limit.limit(), limit.window()), limit.cells())
            }
            Self::InterpolatedWindow(limit) => {
                write!(f, "{name} {}", window(limit.limit(), limit.window()))
            }
            Self::SlidingLog(limit) => {
                write!(f, "{name} {}", window(limit.limit(), limit.window()))
            }
            Self::Concurrency(limit) => write!(f, "{name} {}", limit.limit()),
            Self::Bandwidth(limit) => {
                let rate = limit.rate();
                write!(
                    f,
                    "{name} {}/{}, burst {}",
                    HumanBytes(rate.count()),
                    HumanDuration(rate.period()),
                    HumanBytes(limit.burst())
                )
            }
            Self::WarmUp(limit) => {
                write!(
                    f,
                    "{name} {} after {}, cold factor {}",
                    limit.rate(),
                    HumanDuration(limit.warm_up()),
                    limit.cold_factor()
                )
            }
        }
    }
}

/// Length of a window in nanoseconds; rejects zero and more than ten years.
pub(crate) fn window_nanos(window: Duration) -> Result<u64, LimitError> {
    if window.is_zero() {
        return Err(LimitError::zero("window"));
    }
    if window > MAX_WINDOW {
        return Err(LimitError::WindowTooLong { window });
    }
    Ok(saturating_nanos(window))
}
