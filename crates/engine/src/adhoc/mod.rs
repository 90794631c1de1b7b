//! Ad hoc limits: parameters are given with each call.
//!
//! A rule's parameters are known in advance; callers of `CL.THROTTLE`, or of Envoy's limit override, send them
//! with each call and may send others the next time. So a key's state is only what has the same meaning under any
//! parameters: the arrival time of a bucket, or the end and the usage of a window.
//!
//! **Buckets** decide like redis-cell, with two differences. The emission interval is rounded up to a sixteenth
//! of a nanosecond, while redis-cell rounds down to a whole one: so never more than `burst + rate × T` is
//! admitted in any span T. And nothing overflows: unsupported parameters are an error. If the parameters of a
//! key change, its arrival time stays: a debt of ten seconds stays a debt of ten seconds.
//!
//! **Windows** are aligned to the epoch. Each window length is counted separately, so one key can have a limit
//! per minute and another per day. The seven named lengths (a second, a minute, an hour, a day, a week, 30 days,
//! 365 days) have one table each; up to eight other lengths are possible.
//!
//! **Memory** is fixed. A full table evicts the key that recovers soonest and merges its state into the overflow
//! slot of its bucket; unknown keys start from there ([`crate::limiter`] does the same). With parameters per
//! caller this means:
//! - For buckets, the overflow slot is an arrival time: the latest one of the evicted keys. A key that comes
//!   back starts from there, not from its own, earlier time: no key gets a new burst by eviction, for any
//!   parameters. The price is that a key with a fast rate can be delayed by evicted keys with slow rates, until
//!   their arrival time has passed. Keys with slow rates are evicted last, so that requires a bucket full of even
//!   slower keys: [`AdHoc::early_evictions`] counts such evictions, and a large enough table has none.
//! - Windows of different lengths have separate tables, so an overflow slot always refers to one length: it
//!   counts as much as the fullest evicted key of the current window.
//!
//! Tables are built on first use: without window calls, windows take no memory.
//!
//! ```
//! use sluicegate_engine::adhoc::AdHoc;
//! use sluicegate_engine::clock::ManualClock;
//! use std::time::Duration;
//!
//! let clock = ManualClock::new();
//! let limits = AdHoc::new(100_000, clock.clone())?;
//! let minute = Duration::from_secs(60);
//!
//! // A burst of 15 beyond the first, refilled at 30 a minute.
//! let result = limits.bucket(b"user123", 15, 30, minute, 1)?;
//! assert!(!result.limited);
//! assert_eq!((result.limit, result.remaining), (16, 15));
//! assert_eq!(result.reset_after, Duration::from_secs(2));
//!
//! // At most 2 in each minute of the clock.
//! assert!(!limits.window(b"user123", 2, minute, 2)?.limited);
//! assert!(limits.window(b"user123", 2, minute, 1)?.limited);
//! # Ok::<(), sluicegate_engine::adhoc::AdHocError>(())
//! ```

mod bucket;
mod cluster;
mod error;
mod keys;
mod window;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use cluster::{Operation, ThrottleFuture};
pub use error::AdHocError;

use crate::algorithm::FixedWindow;
use crate::clock::ClockHandle;
use crate::limit::{Limit, LimitError, Rate};
use crate::store::Store;
use crate::table::{Table, random_seed};
use cluster::ClusterLimits;
use keys::{KeyTable, LazyTable};

/// Named window lengths in seconds; other lengths cannot take their tables.
const NAMED_WINDOW_SECONDS: [u64; 7] = [1, 60, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400];
/// Maximum number of other window lengths.
const MAX_CUSTOM_WINDOWS: usize = 8;

/// Keyed limits with parameters given per call. See the [module documentation](self).
pub struct AdHoc {
    clock: ClockHandle,
    seed: u64,
    /// Number of hash buckets of each table.
    size: usize,
    buckets: LazyTable,
    /// One table for each named window length.
    named_windows: [LazyTable; NAMED_WINDOW_SECONDS.len()],
    /// One table for each other length, in order of first use.
    custom_windows: [OnceLock<(Duration, LazyTable)>; MAX_CUSTOM_WINDOWS],
    /// Shared store, if limits are counted cluster-wide.
    cluster: Option<ClusterLimits>,
}

/// Result of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleResult {
    /// True if the call was refused; nothing was consumed then.
    pub limited: bool,
    /// Maximum available at once.
    pub limit: u64,
    /// Available now.
    pub remaining: u64,
    /// Time until a refused call would fit if no other call arrives. `None` if it was not refused or never fits.
    pub retry_after: Option<Duration>,
    /// Time until the bucket is full or the window ends.
    pub reset_after: Duration,
}

impl AdHoc {
    /// Creates tables of `capacity` keys: one for buckets and one per window length.
    pub fn new(capacity: usize, clock: impl Into<ClockHandle>) -> Result<Self, AdHocError> {
        Ok(Self {
            clock: clock.into(),
            seed: random_seed(),
            size: Table::buckets_for(capacity)?,
            buckets: LazyTable::default(),
            named_windows: Default::default(),
            custom_windows: Default::default(),
            cluster: None,
        })
    }

    /// Counts the [async calls](Self::bucket_async) in a store, for a whole cluster.
    #[must_use]
    pub fn with_store(self, store: Arc<dyn Store>) -> Self {
        Self { cluster: Some(ClusterLimits::new(store)), ..self }
    }

    /// Number of keys evicted before they had recovered.
    pub fn early_evictions(&self) -> u64 {
        self.built().map(|keys| keys.table.early_evictions()).sum()
    }

    /// Memory of the tables in bytes, independent of their use.
    pub fn bytes(&self) -> usize {
        self.built().map(|keys| keys.table.bytes()).sum()
    }

    fn built(&self) -> impl Iterator<Item = &KeyTable> {
        let named = self.named_windows.iter().filter_map(LazyTable::built);
        let others = self.custom_windows.iter().filter_map(|window| window.get()?.1.built());
        self.buckets.built().into_iter().chain(named).chain(others)
    }

    /// Table of bucket keys. The table uses its limit set only for operations that hold for any parameters.
    #[inline]
    fn buckets(&self) -> Result<&KeyTable, LimitError> {
        self.buckets.get_or_build(self.size, self.seed, || Limit::token_bucket(Rate::per_second(1)?, 1))
    }

    /// Table of the keys for windows of this length.
    fn windows(&self, unit: Duration, window: FixedWindow) -> Result<&KeyTable, AdHocError> {
        let named = NAMED_WINDOW_SECONDS.iter().position(|seconds| Duration::from_secs(*seconds) == unit);
        let keys = named.map(|index| &self.named_windows[index]).or_else(|| {
            self.custom_windows.iter().find_map(|slot| {
                let (length, keys) = slot.get_or_init(|| (unit, LazyTable::default()));
                (*length == unit).then_some(keys)
            })
        });
        let keys = keys.ok_or(AdHocError::TooManyUnits { unit, max: MAX_CUSTOM_WINDOWS })?;
        Ok(keys.get_or_build(self.size, self.seed, || Ok(Limit::FixedWindow(window)))?)
    }
}

impl fmt::Debug for AdHoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdHoc").field("forgotten_early", &self.early_evictions()).finish_non_exhaustive()
    }
}
