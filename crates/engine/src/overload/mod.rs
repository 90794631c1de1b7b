//! Admission gates for overload protection: limit requests in flight or their rate, lowest priority first.
//!
//! A limiter guarantees that a limit is never exceeded. A gate guarantees nothing by itself: it counts requests
//! in flight, measures their response times, and enforces the [limits](Gate::set_limits) it is given, by number
//! of requests in flight or by rate. It refuses the lowest [class](Priority) first. A control loop outside of
//! this crate sets the limits; its [notice](OverloadNotice) is passed on with each refusal.
//!
//! - [`core`]: state machine of a gate, without locks or wakers
//! - `enter`: admission future
//! - `queue`: wait queue with priorities and maximum waits
//! - `rate`: rate limit that may change at any time
//! - `meter`: throughput and response times
//! - `histogram`: response time histogram
//!
//! ```
//! use sluicegate_engine::overload::{Gate, GateLimits};
//! use sluicegate_engine::rule::Priority;
//!
//! let gate = Gate::default();
//! gate.set_limits(GateLimits { max_in_flight: Some(1), ..GateLimits::OPEN });
//! let permit = gate.try_enter(Priority::Normal)?;
//! assert!(gate.try_enter(Priority::Normal).is_err());
//! drop(permit);
//! assert!(gate.try_enter(Priority::Normal).is_ok());
//! # Ok::<(), sluicegate_engine::overload::GateClosed>(())
//! ```

pub mod core;
mod enter;
mod histogram;
mod meter;
mod queue;
mod rate;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use smallvec::SmallVec;

pub use self::core::{AdmitResult, GateCore, GateLimits, WaitResult};
pub use enter::Enter;
pub use meter::{Interval, Throughput};
pub use queue::QueueBounds;
pub use rate::VariableRate;

use crate::clock::ClockHandle;
use crate::rule::{Priority, Signal};
use crate::time::Timestamp;
use enter::GateWaiter;

/// Admission gate. Clones share the same state.
#[derive(Clone)]
pub struct Gate {
    shared: Arc<GateState>,
}

struct GateState {
    core: Mutex<GateCore<Arc<GateWaiter>>>,
    clock: ClockHandle,
    notice: ArcSwap<OverloadNotice>,
}

/// Explanation of a gate's current limits, set by the control loop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OverloadNotice {
    /// State of the controller, in one word.
    pub state: &'static str,
    /// Reason for refusals, shown in refused responses.
    pub reason: String,
    /// Readings of the relevant signals; `None` if a signal could not be read.
    pub readings: Vec<(Signal, Option<f64>)>,
}

/// Error: the gate did not admit the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the gate is closed")]
pub struct GateClosed {
    /// Time until a retry, if the rate limit alone decides.
    pub retry_after: Option<Duration>,
}

impl Gate {
    /// Open gate with this clock.
    pub fn new(clock: ClockHandle) -> Self {
        let core = Mutex::new(GateCore::new(clock.now()));
        Self { shared: Arc::new(GateState { core, clock, notice: ArcSwap::default() }) }
    }

    /// True if both are the same gate.
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Sets the limits.
    pub fn set_limits(&self, limits: GateLimits) {
        self.shared.change(|core, now| core.set_limits(now, limits));
    }

    /// Current limits.
    pub fn limits(&self) -> GateLimits {
        *self.shared.core.lock().limits()
    }

    /// Sets the notice for refused requests and observers.
    pub fn set_notice(&self, notice: OverloadNotice) {
        self.shared.notice.store(Arc::new(notice));
    }

    /// Current notice.
    pub fn notice(&self) -> Arc<OverloadNotice> {
        self.shared.notice.load_full()
    }

    /// Admits a request if that is possible immediately.
    pub fn try_enter(&self, class: Priority) -> Result<GatePermit, GateClosed> {
        let now = self.shared.clock.now();
        match self.shared.core.lock().try_admit(now, class, None) {
            AdmitResult::Enter => Ok(self.permit(now)),
            AdmitResult::Refused(retry_after) => Err(GateClosed { retry_after }),
            AdmitResult::Wait { .. } => Err(GateClosed { retry_after: None }),
        }
    }

    /// Admits a request, after a short wait if necessary.
    pub fn enter(&self, class: Priority) -> Enter {
        Enter::new(self, class)
    }

    /// Admits a request without a completion report. Only the rate limits it.
    pub fn try_pass(&self, class: Priority) -> Result<(), GateClosed> {
        let now = self.shared.clock.now();
        let passed = self.shared.core.lock().try_admit_untimed(now, class);
        passed.map_err(|retry_after| GateClosed { retry_after: Some(retry_after) })
    }

    /// Admits a request regardless of the limits, for shadow mode. Also returns true if it would have been refused.
    pub fn enter_shadow(&self, class: Priority) -> (GatePermit, bool) {
        let now = self.shared.clock.now();
        let mut core = self.shared.core.lock();
        let would_refuse = !matches!(core.try_admit(now, class, None), AdmitResult::Enter);
        if would_refuse {
            core.enter(now);
        }
        drop(core);
        (self.permit(now), would_refuse)
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.shared.core.lock().in_flight()
    }

    /// Number of queued requests.
    pub fn waiting(&self) -> usize {
        self.shared.core.lock().waiting()
    }

    /// `Ok` if a request would be admitted immediately. Counts nothing.
    pub fn peek(&self, class: Priority) -> Result<(), GateClosed> {
        let now = self.shared.clock.now();
        self.shared.core.lock().peek(now, class).map_err(|retry_after| GateClosed { retry_after })
    }

    /// Throughput of the last second, and current numbers.
    pub fn throughput(&self) -> Throughput {
        let now = self.shared.clock.now();
        self.shared.core.lock().throughput(now)
    }

    /// Measurements since the interval was last [taken](Self::take_interval).
    pub fn peek_interval(&self) -> Interval {
        let now = self.shared.clock.now();
        self.shared.core.lock().peek_interval(now)
    }

    /// Measurements since the last call; starts the next interval. For the control loop.
    pub fn take_interval(&self) -> Interval {
        let now = self.shared.clock.now();
        self.shared.core.lock().take_interval(now)
    }

    fn permit(&self, entered: Timestamp) -> GatePermit {
        GatePermit { gate: Arc::clone(&self.shared), entered, completion: None }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new(ClockHandle::system())
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("orders", &self.limits()).finish_non_exhaustive()
    }
}

impl GateState {
    /// Changes the state, then admits or drops queued requests accordingly and wakes them.
    fn change(&self, act: impl FnOnce(&mut GateCore<Arc<GateWaiter>>, Timestamp)) {
        let now = self.clock.now();
        let mut decided: SmallVec<[Arc<GateWaiter>; 4]> = SmallVec::new();
        let mut core = self.core.lock();
        act(&mut core, now);
        core.admit_waiting(now, |waiter, result| {
            waiter.resolve(result, now);
            decided.push(waiter);
        });
        drop(core);
        decided.iter().for_each(|waiter| waiter.wake());
    }
}

/// Permit of an admitted request. Dropping it frees its slot; unless another completion was
/// [recorded](Self::record), it counts as success.
#[must_use = "dropping the permit ends the request"]
pub struct GatePermit {
    gate: Arc<GateState>,
    entered: Timestamp,
    /// Recorded completion and its time.
    completion: Option<(Completion, Timestamp)>,
}

/// Completion of a request, as measured by a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// A response was sent: the response time counts.
    Ok,
    /// Failed with a sign of overload: aborted, timed out, or the service was unreachable.
    Failed,
    /// No measurement: the client disconnected, or the request never reached the service.
    Unknown,
}

impl GatePermit {
    /// Time of admission.
    pub const fn entered(&self) -> Timestamp {
        self.entered
    }

    /// Records the completion as soon as it is known: later delays, such as a client that reads the response
    /// slowly, say nothing about the service. The slot stays occupied until the permit is dropped.
    pub fn record(&mut self, completion: Completion) {
        self.completion = Some((completion, self.gate.clock.now()));
    }

    /// Cancels the request without a measurement.
    pub fn give_back(mut self) {
        self.record(Completion::Unknown);
    }
}

impl Drop for GatePermit {
    fn drop(&mut self) {
        let Self { gate, entered, completion } = self;
        gate.change(|core, now| match completion.unwrap_or((Completion::Ok, now)) {
            (Completion::Ok, at) => core.finish(now, at - *entered, true),
            (Completion::Failed, at) => core.finish(now, at - *entered, false),
            (Completion::Unknown, _) => core.release(now),
        });
    }
}

impl fmt::Debug for GatePermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("entered", &self.entered).finish_non_exhaustive()
    }
}
