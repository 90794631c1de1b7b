//! The calling side: not calling a backend that would turn the call away.
//!
//! A backend that is overloaded spends its last strength on refusals. So its callers count what it accepts, and make
//! no more than so many calls per accepted one. This is the throttle that Google's SRE book describes: of all calls
//! wanted in the last two minutes, **those it refused itself included**, the share
//!
//! ```text
//! (wanted - K x accepted - 5) / (wanted + 1)
//! ```
//!
//! is not made, chosen by chance. Added to that:
//!
//! - **K** is 2: the backend sees at most twice what it accepts, enough to notice when it can do more. Where fewer than
//!   half of the calls are accepted, K falls, to 1.1 where none is.
//! - **A probe** is made every second, whatever has happened.
//! - **When everything fails**, ten calls in a row and none accepted for two seconds, what was accepted before is
//!   forgotten: it would let calls through for two minutes more.
//! - **When the backend is back**, as many calls are made in a second as the second before allows, K times what was
//!   accepted in it. So calls double every second, while the bound of K is kept.
//!
//! One throttle is for one backend. Memory and work per call are fixed: 60 cells, whatever the load.
//!
//! ```
//! use sluicegate_adaptive::client::ClientThrottle;
//! use sluicegate_engine::clock::{ClockHandle, ManualClock};
//!
//! let throttle = ClientThrottle::new(ClockHandle::new(ManualClock::new()));
//! let mut made = 0;
//! for _ in 0..1_000 {
//!     if let Ok(attempt) = throttle.ask() {
//!         made += 1;
//!         attempt.rejected(); // the backend answered 503
//!     }
//! }
//! assert!(made < 60, "{made} of a thousand calls");
//! assert!(throttle.state().refused_share > 0.99);
//! ```

mod throttle;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;

use throttle::{Refused, Strictness, Throttle};

/// A throttle on calls to one backend. Clones are the same throttle.
#[derive(Clone)]
pub struct ClientThrottle(Arc<Shared>);

struct Shared {
    clock: ClockHandle,
    state: Mutex<(Throttle, Chance)>,
}

/// How a throttle is made.
#[derive(Clone, Debug)]
#[must_use = "nothing is throttled until `build` is called"]
pub struct ClientThrottleBuilder {
    clock: ClockHandle,
    strictness: Strictness,
    seed: Option<u64>,
}

/// What a throttle knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientState {
    /// Calls that were wanted within the window, those that were not made included.
    pub wanted: u64,
    /// Calls that were accepted; none, after everything failed.
    pub accepted: u64,
    /// Calls that were turned away.
    pub rejected: u64,
    /// How many calls per accepted one are made.
    pub calls_per_accepted: f64,
    /// The share of calls that are not made.
    pub refused_share: f64,
}

/// A call is not made: the backend turns away too many.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the backend turns calls away: {}% of them are not made at present", (share * 100.0).floor())]
pub struct Throttled {
    /// The share of calls that are not made at present.
    pub share: f64,
    /// After how long one is made in any case, if nobody else comes first.
    pub retry_after: Duration,
}

impl ClientThrottle {
    /// A throttle with the usual window and strictness.
    pub fn new(clock: ClockHandle) -> Self {
        Self::builder(clock).build()
    }

    /// How it goes by which clock.
    pub const fn builder(clock: ClockHandle) -> ClientThrottleBuilder {
        let strictness = Strictness { window: Duration::from_secs(120), most: 2.0, least: 1.1 };
        ClientThrottleBuilder { clock, strictness, seed: None }
    }

    /// Whether a call may be made. What became of it is to be told to the attempt.
    pub fn ask(&self) -> Result<Attempt, Throttled> {
        let now = self.0.clock.now();
        let (throttle, chance) = &mut *self.0.state.lock();
        match throttle.ask(now, chance.next()) {
            Ok(()) => Ok(Attempt { throttle: self.clone(), asked: now, told: false }),
            Err(Refused { share, wait }) => Err(Throttled { share, retry_after: wait }),
        }
    }

    /// What it knows.
    pub fn state(&self) -> ClientState {
        let now = self.0.clock.now();
        let (throttle, _) = &*self.0.state.lock();
        let sums = throttle.sums(now);
        ClientState {
            wanted: sums.wanted,
            accepted: sums.accepted,
            rejected: sums.rejected,
            calls_per_accepted: throttle.calls_per_accepted(now),
            refused_share: throttle.refused_share(now),
        }
    }

    fn tell(&self, of: impl FnOnce(&mut Throttle, Timestamp)) {
        let now = self.0.clock.now();
        of(&mut self.0.state.lock().0, now);
    }
}

impl ClientThrottleBuilder {
    /// How far back it remembers: two minutes unless told otherwise.
    pub const fn window(mut self, window: Duration) -> Self {
        self.strictness.window = window;
        self
    }

    /// How many calls per accepted one are made, K: 2 unless told otherwise. Less is stricter, and slower to notice that
    /// the backend can do more. Where none is accepted it falls to 1.1, or to this if it is lower; never below 1.
    pub const fn calls_per_accepted(mut self, calls: f64) -> Self {
        self.strictness.most = calls.max(1.0);
        self.strictness.least = self.strictness.most.min(1.1);
        self
    }

    /// Makes chance repeatable.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Ready to be asked.
    pub fn build(self) -> ClientThrottle {
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0u8));
        let state = Mutex::new((Throttle::new(self.strictness), Chance(seed)));
        ClientThrottle(Arc::new(Shared { clock: self.clock, state }))
    }
}

/// A call that may be made. What became of it is told here.
///
/// Dropped without a word it counts as rejected: most calls that are given up were waited for in vain, and a backend
/// that answers nobody in time must not look healthy.
#[must_use = "dropping the attempt counts as a rejection"]
pub struct Attempt {
    throttle: ClientThrottle,
    asked: Timestamp,
    told: bool,
}

impl Attempt {
    /// The backend took the call, whatever it answered.
    pub fn accepted(mut self) {
        self.told = true;
        self.throttle.tell(Throttle::accepted);
    }

    /// The backend turned the call away, or could not be reached.
    pub fn rejected(self) {
        drop(self);
    }

    /// The call was not made after all: it counts for nothing.
    pub fn take_back(mut self) {
        self.told = true;
        let asked = self.asked;
        self.throttle.tell(|throttle, _| throttle.take_back(asked));
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.told {
            self.throttle.tell(Throttle::rejected);
        }
    }
}

/// Numbers by chance, the same for the same seed (SplitMix64).
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    /// The next one, from 0 up to but not including 1.
    const fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

impl fmt::Debug for ClientThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientThrottle").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("asked", &self.asked).finish_non_exhaustive()
    }
}
