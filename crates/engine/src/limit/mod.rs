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

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub use crate::algorithm::sliding_window::DEFAULT_CELLS;
use crate::algorithm::store_form::{StoreForm, StoreFormError};
use crate::algorithm::{
    Algorithm, Alignment, Bandwidth, Concurrency, Describe, Description, FixedWindow, Imprecision, InterpolatedWindow,
    LeakyBucket, LeaseForm, LimitArguments, LimitUnit, NodeShare, Pacing, ParameterValue, Share, SlidingLog,
    SlidingWindow, TokenBucket, WarmUp, gcra::Gcra,
};
pub use crate::quota::{LimitError, Rate, parse};

/// Defines [`Limit`] with a variant for each algorithm. `$d` is a dollar sign, for the macro that it defines.
macro_rules! define_limit {
    ([$d:tt] $($(#[$doc:meta])* $algorithm:ident $script:literal;)*) => {
        /// A limit: one algorithm with its parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Limit {
            $($(#[$doc])* $algorithm($crate::algorithm::$algorithm),)*
        }

        /// Descriptions of all algorithms.
        pub const DESCRIPTIONS: &[&Description] = &[$(<$crate::algorithm::$algorithm as Describe>::DESCRIPTION),*];

        impl Limit {
            /// Limit of the algorithm of this name, with these parameters.
            pub fn from_arguments(algorithm: &str, arguments: &LimitArguments) -> Result<Self, LimitError> {
                $(if algorithm == <$crate::algorithm::$algorithm as Describe>::DESCRIPTION.name {
                    return <$crate::algorithm::$algorithm as Describe>::from_arguments(arguments).map(Self::$algorithm);
                })*
                Err(LimitError::UnknownAlgorithm { name: algorithm.to_owned() })
            }

            /// Carries over the state of a limit of the same algorithm, if the states are comparable.
            pub(crate) fn carry_over(&self, state: &mut [u64], old: &Self, old_state: &[u64]) -> bool {
                match (self, old) {
                    $((Self::$algorithm(new), Self::$algorithm(old)) => {
                        Describe::carry_over(new, state, old, old_state)
                    })*
                    _ => false,
                }
            }

            /// True if a limit of the same algorithm admits nothing that `other` refuses, by their parameters alone.
            fn is_tighter_than(&self, other: &Self) -> bool {
                match (self, other) {
                    $((Self::$algorithm(tight), Self::$algorithm(loose)) => Describe::implies(tight, loose),)*
                    _ => false,
                }
            }
        }

        $(impl From<$crate::algorithm::$algorithm> for Limit {
            fn from(algorithm: $crate::algorithm::$algorithm) -> Self {
                Self::$algorithm(algorithm)
            }
        })*

        /// Evaluates the same expression for the algorithm of any limit.
        macro_rules! each_algorithm {
            ($d limit:expr, $d it:ident => $d body:expr) => {
                match $d limit {
                    $($d crate::limit::Limit::$algorithm($d it) => $d body,)*
                }
            };
        }
        pub(crate) use each_algorithm;
    };
}
crate::for_each_algorithm!(define_limit [$]);

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

    /// Strict sliding window with the default number of cells: the short form `300/1m`.
    pub fn from_rate(rate: Rate) -> Result<Self, LimitError> {
        SlidingWindow::from_rate(rate).map(Self::SlidingWindow)
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
        Bandwidth::new(rate, burst).map(Self::Bandwidth)
    }

    /// `rate` once warm, reached after `warm_up` from a gap `cold_factor` times as long.
    pub fn warm_up(rate: Rate, warm_up: Duration, cold_factor: u32) -> Result<Self, LimitError> {
        WarmUp::new(rate, warm_up, cold_factor).map(Self::WarmUp)
    }

    /// Constant properties of the algorithm.
    pub const fn description(&self) -> &'static Description {
        const fn of<A: Describe>(_: &A) -> &'static Description {
            A::DESCRIPTION
        }
        each_algorithm!(self, algorithm => of(algorithm))
    }

    /// Name of the algorithm in rule files.
    pub const fn algorithm(&self) -> &'static str {
        self.description().name
    }

    /// All parameters of the algorithm, in the order of its description.
    pub fn arguments(&self) -> LimitArguments {
        each_algorithm!(self, algorithm => Describe::arguments(algorithm))
    }

    /// Quantity that the limit counts.
    #[inline]
    pub const fn unit(&self) -> LimitUnit {
        // A constant for each algorithm: every decision needs it.
        const fn of<A: Describe>(_: &A) -> LimitUnit {
            A::DESCRIPTION.unit
        }
        each_algorithm!(self, algorithm => of(algorithm))
    }

    /// True for a concurrency limit, which only the permit's holder can release.
    #[inline]
    pub const fn is_concurrency(&self) -> bool {
        matches!(self.unit(), LimitUnit::Permits)
    }

    /// True if requests are spread over time, and may have to wait after they are admitted.
    pub const fn is_paced(&self) -> bool {
        !matches!(self.description().pacing, Pacing::None)
    }

    /// True if requests wait in a queue of limited length, which is part of the limit.
    pub const fn has_queue(&self) -> bool {
        matches!(self.description().pacing, Pacing::Queue)
    }

    /// Maximum available at once: burst, queue, limit or permits. `u64::MAX` if a cost of any size is admitted.
    pub fn capacity(&self) -> u64 {
        each_algorithm!(self, algorithm => Describe::capacity(algorithm))
    }

    /// Time span of the limit: its window, or the time its burst or queue takes at its rate. `None` for
    /// concurrency limits.
    pub fn window(&self) -> Option<Duration> {
        each_algorithm!(self, algorithm => Describe::window(algorithm))
    }

    /// Amount and time as written: `10` and one second for `10/s`. No time for concurrency limits.
    pub fn quota(&self) -> (u64, Option<Duration>) {
        match self.arguments().get(0) {
            Some(ParameterValue::Rate(rate)) => (rate.count(), Some(rate.period())),
            _ => (self.capacity(), self.window()),
        }
    }

    /// Maximum within [`Self::window`], as headers report it: the capacity, or the rate of a limit that admits a cost
    /// of any size.
    pub fn window_quota(&self) -> u64 {
        match self.capacity() {
            u64::MAX => self.quota().0,
            capacity => capacity,
        }
    }

    /// The [limit](crate::algorithm::Status::limit) in the status of every state.
    pub fn status_limit(&self) -> u64 {
        each_algorithm!(self, algorithm => Describe::status_limit(algorithm))
    }

    /// Words of state per key.
    pub fn words(&self) -> usize {
        each_algorithm!(self, algorithm => algorithm.words())
    }

    /// Form in which processes lease parts of the limit, if its algorithm supports that.
    pub fn lease_form(&self) -> Option<LeaseForm> {
        each_algorithm!(self, algorithm => Describe::lease_form(algorithm))
    }

    /// Parameters for the script of a shared store.
    pub fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        each_algorithm!(self, algorithm => Describe::store_form(algorithm))
    }

    /// GCRA of a limit that is a token bucket.
    pub fn as_token_bucket(&self) -> Option<&Gcra> {
        each_algorithm!(self, algorithm => Describe::token_bucket(algorithm))
    }

    /// True if every request that this limit admits also passes `other`, as far as their documented bounds prove it.
    pub fn implies(&self, other: &Self) -> bool {
        let max_admitted = |span| each_algorithm!(self, algorithm => Describe::max_admitted(algorithm, span));
        let counting_time = each_algorithm!(other, algorithm => Describe::counting_time(algorithm));
        let fits = counting_time.and_then(max_admitted).is_some_and(|max| max <= u128::from(other.capacity()));
        fits || self.is_tighter_than(other)
    }

    /// Noticeable difference between the limit as written and as enforced.
    pub fn imprecision(&self) -> Option<Imprecision> {
        each_algorithm!(self, algorithm => Describe::imprecision(algorithm))
    }

    /// One of `nodes` equal shares; `None` if a share would be nothing.
    pub(crate) fn share(&self, nodes: NodeShare) -> Result<Option<Self>, LimitError> {
        Ok(each_algorithm!(self, algorithm => match Describe::share(algorithm, nodes)? {
            Share::Limit(share) => Some(share.into()),
            Share::TokenBucket(share) => Some(share.into()),
            Share::Nothing => None,
        }))
    }

    /// Shortest notation: `300/1m` for a strict sliding window with the default number of cells.
    pub fn short_notation(&self) -> String {
        let main = self.description().parameters.first().zip(self.arguments().get(0));
        let short = main.map(|(parameter, value)| parameter.format(value));
        short.filter(|short| short.parse() == Ok(*self)).unwrap_or_else(|| self.to_string())
    }

    /// The limit in words: `300/1m`, `token bucket 10/s, burst 20`.
    pub fn label(&self) -> String {
        let short = self.short_notation();
        match short.strip_prefix(self.algorithm()) {
            Some(parameters) => self.algorithm().replace('_', " ") + parameters,
            None => short,
        }
    }

    /// The same limit with a word for reservations, if its algorithm supports them.
    pub(crate) fn reservable(self) -> Self {
        each_algorithm!(self, algorithm => Describe::with_reservations(algorithm).into())
    }

    /// True if the algorithm supports reservations.
    pub(crate) const fn supports_reservations(&self) -> bool {
        self.description().reservable
    }

    /// True if earlier charges can be refunded.
    pub(crate) const fn is_refundable(&self) -> bool {
        self.description().refundable
    }
}

/// Parses the short form: `300/1m` is a strict sliding window.
impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        Self::from_rate(text.parse()?)
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm())?;
        let arguments = self.arguments();
        for (index, parameter) in self.description().parameters.iter().enumerate() {
            if let Some(value) = arguments.get(index) {
                f.write_str(&parameter.notation(value))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
