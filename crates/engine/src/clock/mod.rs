//! Clocks. Time is always injected: the real one by default, a hand-turned one in tests.
//!
//! A [`Clock`] tells the time and wakes whoever asked to be woken. One clock has one timer, however
//! many callers wait. Clocks need not be perfect: every algorithm refills nothing when time steps
//! back, so a bad clock makes limits stricter, never looser.
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

mod alarms;
mod manual;
mod sleep;
mod system;

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

pub use alarms::AlarmId;
pub use manual::ManualClock;
pub use sleep::Sleep;
pub use system::SystemClock;

use crate::time::Timestamp;
use system::Anchor;

/// Tells the time and wakes at it.
pub trait Clock: Send + Sync {
    /// The present moment.
    fn now(&self) -> Timestamp;

    /// Wakes `waker` once `at` has come, unless it is cancelled before.
    fn set_alarm(&self, at: Timestamp, waker: Waker) -> AlarmId;

    /// Forgets an alarm; does nothing if it has gone off.
    fn cancel_alarm(&self, id: AlarmId);
}

/// The clock of a limiter: the system's, reached without indirection, or one that was handed in.
#[derive(Clone)]
pub struct ClockHandle(Source);

#[derive(Clone)]
enum Source {
    System(&'static Anchor),
    Custom(Arc<dyn Clock>),
}

impl ClockHandle {
    /// The real clock.
    pub fn system() -> Self {
        Self(Source::System(Anchor::get()))
    }

    /// A clock of your own.
    pub fn new(clock: impl Clock + 'static) -> Self {
        Self(Source::Custom(Arc::new(clock)))
    }

    /// The present moment.
    #[inline(always)]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System(anchor) => anchor.now(),
            Source::Custom(clock) => clock.now(),
        }
    }

    fn clock(&self) -> &dyn Clock {
        match &self.0 {
            Source::System(_) => &SystemClock,
            Source::Custom(clock) => &**clock,
        }
    }

    /// See [`Clock::set_alarm`].
    pub fn set_alarm(&self, at: Timestamp, waker: Waker) -> AlarmId {
        self.clock().set_alarm(at, waker)
    }

    /// See [`Clock::cancel_alarm`].
    pub fn cancel_alarm(&self, id: AlarmId) {
        self.clock().cancel_alarm(id);
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
            Source::System(_) => "ClockHandle(system)",
            Source::Custom(_) => "ClockHandle(custom)",
        })
    }
}
