//! Limits whose numbers come with each call.
//!
//! A rule knows its numbers beforehand; callers of `CL.THROTTLE`, or of Envoy's limit override, bring them
//! along, and may bring others the next time. So nothing is kept of a key but what means the same under any
//! numbers: of a bucket the moment at which it is full again, of a window its end and what was taken in it.
//!
//! **Buckets** decide as redis-cell does, up to two things. The time one token takes is rounded up to a
//! sixteenth of a nanosecond, where redis-cell rounds down to a whole one: so never more is admitted than
//! `burst + rate × T` in any span T. And nothing overflows: numbers that cannot be kept are an error.
//! When a key's numbers change, the moment stays: who owed ten seconds owes ten seconds.
//!
//! **Windows** are aligned to the epoch. Each length of window is counted apart, so one key can have a limit
//! for a minute and another for a day. The seven that have a name (a second, a minute, an hour, a day, a week, 30 days,
//! 365 days) have a place each; of others there may be eight.
//!
//! **Memory** is fixed. A full table forgets the key that recovers soonest, and folds its state into the
//! strict slot of its bucket, from which keys that are not known start ([`crate::limiter`] does the same). With
//! numbers of each caller's own that means:
//! - For buckets the strict slot is a moment: that of the forgotten key that would have been full last. A key
//!   that comes back starts from there, not from its own moment, which was earlier: no key gets a new burst by
//!   being forgotten, whatever numbers it or the others have. The price is that a key of quick numbers can be
//!   held up by forgotten keys of slow ones, until their moment has passed. Keys of slow numbers are the
//!   last to be forgotten, so that needs a bucket full of nothing but keys slower still:
//!   [`AdHoc::forgotten_early`] counts such losses, and a table large enough has none.
//! - Windows of different lengths have tables of their own, so a strict slot always speaks of one length: it
//!   counts as much as the fullest forgotten key of this very window.
//!
//! Tables are built when first used: whoever never asks for windows pays nothing for them.
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
//! let said = limits.bucket(b"user123", 15, 30, minute, 1)?;
//! assert!(!said.limited);
//! assert_eq!((said.limit, said.remaining), (16, 15));
//! assert_eq!(said.reset_after, Duration::from_secs(2));
//!
//! // At most 2 in each minute of the clock.
//! assert!(!limits.window(b"user123", 2, minute, 2)?.limited);
//! assert!(limits.window(b"user123", 2, minute, 1)?.limited);
//! # Ok::<(), sluicegate_engine::adhoc::AdHocError>(())
//! ```

mod bucket;
mod error;
mod fleet;
mod keys;
mod window;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use error::AdHocError;
pub use fleet::{Deed, Throttling};

use crate::algorithm::FixedWindow;
use crate::clock::ClockHandle;
use crate::fleet::FleetStore;
use crate::limit::{Limit, LimitError, Rate};
use crate::table::{Table, random_seed};
use fleet::Fleet;
use keys::{BuiltOnce, Keys};

/// Lengths of window that have a name, in seconds: callers who bring others cannot take their places.
const NAMED: [u64; 7] = [1, 60, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400];
/// The most other lengths of window that are counted.
const MOST_OTHERS: usize = 8;

/// Keys with limits whose numbers come with each call. See the [module's head](self).
pub struct AdHoc {
    clock: ClockHandle,
    seed: u64,
    /// How many buckets each table has.
    size: usize,
    buckets: BuiltOnce,
    /// One for each length of window that has a name.
    named: [BuiltOnce; NAMED.len()],
    /// And for each other one, in the order they were first asked for.
    others: [OnceLock<(Duration, BuiltOnce)>; MOST_OTHERS],
    /// Who counts, if not this process alone.
    fleet: Option<Fleet>,
}

/// What was said of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// Whether it was refused; then nothing was taken.
    pub limited: bool,
    /// The most that can be had at once.
    pub limit: u64,
    /// What could be had now.
    pub remaining: u64,
    /// When what was refused would fit if nobody else came. `None` if it was not refused, or never fits.
    pub retry_after: Option<Duration>,
    /// Until the bucket is full, or the window ends.
    pub reset_after: Duration,
}

impl AdHoc {
    /// Remembers `capacity` keys of buckets, and as many of each length of window, and never more.
    pub fn new(capacity: usize, clock: impl Into<ClockHandle>) -> Result<Self, AdHocError> {
        Ok(Self {
            clock: clock.into(),
            seed: random_seed(),
            size: Table::buckets_for(capacity)?,
            buckets: BuiltOnce::default(),
            named: Default::default(),
            others: Default::default(),
            fleet: None,
        })
    }

    /// Has a store count what is [asked](Self::ask_bucket), for a whole fleet.
    #[must_use]
    pub fn shared_by(self, store: Arc<dyn FleetStore>) -> Self {
        Self { fleet: Some(Fleet::new(store)), ..self }
    }

    /// How many keys were forgotten before they had recovered.
    pub fn forgotten_early(&self) -> u64 {
        self.built().map(|keys| keys.table.forgotten()).sum()
    }

    /// Memory the keys take, whether used or not.
    pub fn bytes(&self) -> usize {
        self.built().map(|keys| keys.table.bytes()).sum()
    }

    fn built(&self) -> impl Iterator<Item = &Keys> {
        let named = self.named.iter().filter_map(BuiltOnce::built);
        let others = self.others.iter().filter_map(|window| window.get()?.1.built());
        self.buckets.built().into_iter().chain(named).chain(others)
    }

    /// The keys of buckets. The table asks its plan only what holds for any numbers.
    #[inline]
    fn buckets(&self) -> Result<&Keys, LimitError> {
        self.buckets.get_or_build(self.size, self.seed, || Limit::token_bucket(Rate::per_second(1)?, 1))
    }

    /// The keys of windows of this length.
    fn windows(&self, unit: Duration, window: FixedWindow) -> Result<&Keys, AdHocError> {
        let named = NAMED.iter().position(|seconds| Duration::from_secs(*seconds) == unit);
        let keys = named.map(|nth| &self.named[nth]).or_else(|| {
            self.others.iter().find_map(|place| {
                let (length, keys) = place.get_or_init(|| (unit, BuiltOnce::default()));
                (*length == unit).then_some(keys)
            })
        });
        let keys = keys.ok_or(AdHocError::TooManyUnits { unit, most: MOST_OTHERS })?;
        Ok(keys.get_or_build(self.size, self.seed, || Ok(Limit::FixedWindow(window)))?)
    }
}

impl fmt::Debug for AdHoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdHoc").field("forgotten_early", &self.forgotten_early()).finish_non_exhaustive()
    }
}
