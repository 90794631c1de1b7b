//! Injected clocks and timers: the system clock by default, a manual clock in tests.
//!
//! A [`Clock`] provides the current time and wakes tasks at a deadline. One clock has one timer, for any number
//! of waiting tasks. A clock need not be perfect: no algorithm refills when time steps back, so a bad clock
//! makes limits stricter, never looser.
//!
//! ```
//! use sluicegate_engine::{Limiter, Limit, Rate, clock::ManualClock};
//! use std::time::Duration;
//!
//! let clock = ManualClock::new();
//! let limiter = Limiter::builder().limit("1/s".parse()?).clock(clock.clone()).build()?;
//! assert!(limiter.check().is_allowed());
//! assert!(!limiter.check().is_allowed());
//! clock.advance(Duration::from_millis(1_100));
//! assert!(limiter.check().is_allowed());
//! # Ok::<(), sluicegate_engine::LimitError>(())
//! ```

mod manual;
mod sleep;
mod system;
mod timers;

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

pub use manual::ManualClock;
pub use sleep::Sleep;
pub use system::SystemClock;
pub use timers::TimerId;

use crate::time::Timestamp;
use system::CounterAnchor;

/// Source of time and timers.
pub trait Clock: Send + Sync {
    /// Current time.
    fn now(&self) -> Timestamp;

    /// Wakes `waker` at time `at`, unless cancelled before.
    fn schedule(&self, at: Timestamp, waker: Waker) -> TimerId;

    /// Cancels a timer; does nothing if it has fired.
    fn cancel(&self, id: TimerId);
}

/// Clock of a limiter: the system clock, called without indirection, or a custom one.
#[derive(Clone)]
pub struct ClockHandle(ClockSource);

#[derive(Clone)]
enum ClockSource {
    System(&'static CounterAnchor),
    Custom(Arc<dyn Clock>),
}

impl ClockHandle {
    /// The system clock.
    pub fn system() -> Self {
        Self(ClockSource::System(CounterAnchor::get()))
    }

    /// A custom clock.
    pub fn new(clock: impl Clock + 'static) -> Self {
        Self(ClockSource::Custom(Arc::new(clock)))
    }

    /// Current time.
    #[inline(always)]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockSource::System(anchor) => anchor.now(),
            ClockSource::Custom(clock) => clock.now(),
        }
    }

    fn clock(&self) -> &dyn Clock {
        match &self.0 {
            ClockSource::System(_) => &SystemClock,
            ClockSource::Custom(clock) => &**clock,
        }
    }

    /// See [`Clock::schedule`].
    pub fn schedule(&self, at: Timestamp, waker: Waker) -> TimerId {
        self.clock().schedule(at, waker)
    }

    /// See [`Clock::cancel`].
    pub fn cancel(&self, id: TimerId) {
        self.clock().cancel(id);
    }
}

impl Default for ClockHandle {
    fn default() -> Self {
        Self::system()
    }
}

impl<C: Clock + 'static> From<C> for ClockHandle {
    fn from(clock: C) -> Self {
        Self::new(clock)
    }
}

impl fmt::Debug for ClockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            ClockSource::System(_) => "ClockHandle(system)",
            ClockSource::Custom(_) => "ClockHandle(custom)",
        })
    }
}
