//! Client-side adaptive throttling, as described in Google's SRE book ("Handling Overload").
//!
//! An overloaded backend spends its remaining capacity on rejections. So clients count accepted calls and make
//! at most K calls per accepted one. Of all calls requested in the last two minutes, **including those rejected
//! locally**, the share
//!
//! ```text
//! (requested - K x accepted - 5) / (requested + 1)
//! ```
//!
//! is rejected locally at random. In addition:
//!
//! - **K** is 2: the backend sees at most twice what it accepts, enough to notice a higher capacity. If fewer
//!   than half of the calls are accepted, K falls, down to 1.1 if none is.
//! - **A probe** is made every second in any case.
//! - **In an outage**, after ten consecutive rejections and two seconds without an accepted call, earlier
//!   accepted calls are discarded: they would allow calls for two more minutes.
//! - **On recovery**, each second may make K times the calls accepted in the second before. So calls double
//!   every second within the bound of K.
//!
//! One throttle serves one backend. Memory and work per call are constant: 60 cells at any load.
//!
//! ```
//! use sluicegate_adaptive::client::ClientThrottle;
//! use sluicegate_engine::clock::{ClockHandle, ManualClock};
//!
//! let throttle = ClientThrottle::new(ClockHandle::new(ManualClock::new()));
//! let mut made = 0;
//! for _ in 0..1_000 {
//!     if let Ok(attempt) = throttle.try_call() {
//!         made += 1;
//!         attempt.rejected(); // the backend returned 503
//!     }
//! }
//! assert!(made < 60, "{made} of a thousand calls");
//! assert!(throttle.state().rejection_ratio > 0.99);
//! ```

mod throttle;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;

use throttle::{CallRejected, Throttle, ThrottleParams};

/// Client-side throttle for calls to one backend. Clones share their state.
#[derive(Clone)]
pub struct ClientThrottle(Arc<ThrottleState>);

struct ThrottleState {
    clock: ClockHandle,
    state: Mutex<(Throttle, Rng)>,
}

/// Builder for a [`ClientThrottle`].
#[derive(Clone, Debug)]
#[must_use = "nothing is throttled until `build` is called"]
pub struct ClientThrottleBuilder {
    clock: ClockHandle,
    params: ThrottleParams,
    seed: Option<u64>,
}

/// Statistics of a throttle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottleStats {
    /// Calls requested within the window, including those rejected locally.
    pub requested: u64,
    /// Calls accepted by the backend; zero after an outage.
    pub accepted: u64,
    /// Calls rejected by the backend.
    pub rejected: u64,
    /// Current K: calls made per accepted call.
    pub calls_per_accepted: f64,
    /// Share of calls rejected locally.
    pub rejection_ratio: f64,
}

/// A call was rejected locally because the backend rejects too many.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("the backend rejects calls: {}% of calls are throttled", (rejection_ratio * 100.0).floor())]
pub struct Throttled {
    /// Share of calls currently rejected locally.
    pub rejection_ratio: f64,
    /// Time until the next probe, if no other call is made first.
    pub retry_after: Duration,
}

impl ClientThrottle {
    /// Creates a throttle with the default window and K.
    pub fn new(clock: ClockHandle) -> Self {
        Self::builder(clock).build()
    }

    /// Returns a builder that uses this clock.
    pub const fn builder(clock: ClockHandle) -> ClientThrottleBuilder {
        let params = ThrottleParams {
            window: Duration::from_secs(120),
            max_calls_per_accepted: 2.0,
            min_calls_per_accepted: 1.1,
        };
        ClientThrottleBuilder { clock, params, seed: None }
    }

    /// Requests a call. Report its result to the returned attempt.
    pub fn try_call(&self) -> Result<Attempt, Throttled> {
        let now = self.0.clock.now();
        let (throttle, random) = &mut *self.0.state.lock();
        match throttle.request(now, random.f64()) {
            Ok(()) => Ok(Attempt { throttle: self.clone(), requested_at: now, recorded: false }),
            Err(CallRejected { rejection_ratio, wait }) => Err(Throttled { rejection_ratio, retry_after: wait }),
        }
    }

    /// Returns the current statistics.
    pub fn state(&self) -> ThrottleStats {
        let now = self.0.clock.now();
        let (throttle, _) = &*self.0.state.lock();
        let sums = throttle.totals(now);
        ThrottleStats {
            requested: sums.requested,
            accepted: sums.accepted,
            rejected: sums.rejected,
            calls_per_accepted: throttle.calls_per_accepted(now),
            rejection_ratio: throttle.rejection_ratio(now),
        }
    }

    fn record(&self, update: impl FnOnce(&mut Throttle, Timestamp)) {
        let now = self.0.clock.now();
        update(&mut self.0.state.lock().0, now);
    }
}

impl ClientThrottleBuilder {
    /// Length of the window. Default: two minutes.
    pub const fn window(mut self, window: Duration) -> Self {
        self.params.window = window;
        self
    }

    /// K, the number of calls made per accepted one. Default: 2. A lower value is stricter and slower to notice
    /// a higher capacity. If no call is accepted it falls to 1.1, or to this value if lower; never below 1.
    pub const fn calls_per_accepted(mut self, calls: f64) -> Self {
        self.params.max_calls_per_accepted = calls.max(1.0);
        self.params.min_calls_per_accepted = self.params.max_calls_per_accepted.min(1.1);
        self
    }

    /// Seeds the random numbers, for repeatable results.
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Builds the throttle.
    pub fn build(self) -> ClientThrottle {
        let random = self.seed.map_or_else(Rng::new, Rng::with_seed);
        let state = Mutex::new((Throttle::new(self.params), random));
        ClientThrottle(Arc::new(ThrottleState { clock: self.clock, state }))
    }
}

/// A call that may be made; records its result.
///
/// Dropping it without a result counts as a rejection: most abandoned calls timed out, and a backend that never
/// responds in time must not look healthy.
#[must_use = "dropping the attempt counts as a rejection"]
pub struct Attempt {
    throttle: ClientThrottle,
    requested_at: Timestamp,
    recorded: bool,
}

impl Attempt {
    /// Records that the backend accepted the call, with any response.
    pub fn accepted(mut self) {
        self.recorded = true;
        self.throttle.record(Throttle::accepted);
    }

    /// Records that the backend rejected the call or could not be reached.
    pub fn rejected(self) {
        drop(self);
    }

    /// Cancels a call that was not made: it does not count.
    pub fn cancel(mut self) {
        self.recorded = true;
        let requested_at = self.requested_at;
        self.throttle.record(|throttle, _| throttle.cancel(requested_at));
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.recorded {
            self.throttle.record(Throttle::rejected);
        }
    }
}

impl fmt::Debug for ClientThrottle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientThrottle").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").field("requested_at", &self.requested_at).finish_non_exhaustive()
    }
}
