//! Gates: where requests are held back that the process has no strength for.
//!
//! A limiter promises that a number is never exceeded. A gate promises nothing by itself: it counts who is inside and
//! how long they stay, and holds back as many as it is [ordered](Gate::order) to, by places or by a rate, the lowest
//! [class](Priority) first. Who gives the orders, and why, is not its business; what that somebody
//! [says](Notice) about them is passed on to those who are refused.
//!
//! - [`core`]: everything that can happen to a gate, as a state without locks or wakers
//! - `line`: who waits for a place, for how long, and who goes first
//! - `rate`: a rate whose height changes at any time
//! - `meter`: what passes, measured
//!
//! ```
//! use sluicegate_engine::gate::{Gate, Orders};
//! use sluicegate_engine::rule::Priority;
//!
//! let gate = Gate::default();
//! gate.order(Orders { places: Some(1), ..Orders::OPEN });
//! let inside = gate.try_enter(Priority::Normal)?;
//! assert!(gate.try_enter(Priority::Normal).is_err());
//! drop(inside);
//! assert!(gate.try_enter(Priority::Normal).is_ok());
//! # Ok::<(), sluicegate_engine::gate::Shut>(())
//! ```

pub mod core;
mod enter;
mod histogram;
mod line;
mod meter;
mod rate;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use smallvec::SmallVec;

pub use self::core::{Core, Fate, Offered, Orders};
pub use enter::Enter;
pub use line::Bounds;
pub use meter::{Lap, Passing};
pub use rate::Height;

use crate::clock::ClockHandle;
use crate::rule::{Priority, Signal};
use crate::time::Timestamp;
use enter::Waiter;

/// A gate. Clones are the same gate.
#[derive(Clone)]
pub struct Gate {
    shared: Arc<Shared>,
}

struct Shared {
    core: Mutex<Core<Arc<Waiter>>>,
    clock: ClockHandle,
    notice: ArcSwap<Notice>,
}

/// What whoever turns a gate says about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notice {
    /// The state it is in, in one word.
    pub state: &'static str,
    /// Why it holds back requests, for those it does.
    pub reason: String,
    /// What was read of the signals that matter to it; `None`: it could not be read.
    pub readings: Vec<(Signal, Option<f64>)>,
}

/// A request was not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the gate is shut")]
pub struct Shut {
    /// When it may be tried again, if a clock can tell.
    pub retry_after: Option<Duration>,
}

impl Gate {
    /// An open gate that goes by this clock.
    pub fn new(clock: ClockHandle) -> Self {
        let core = Mutex::new(Core::new(clock.now()));
        Self { shared: Arc::new(Shared { core, clock, notice: ArcSwap::default() }) }
    }

    /// Whether both are the same gate.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Changes what holds.
    pub fn order(&self, orders: Orders) {
        self.shared.change(|core, now| core.order(now, orders));
    }

    /// What holds.
    pub fn orders(&self) -> Orders {
        *self.shared.core.lock().orders()
    }

    /// Tells those who are held back, and those who watch, why.
    pub fn post(&self, notice: Notice) {
        self.shared.notice.store(Arc::new(notice));
    }

    /// What was last said about it.
    pub fn notice(&self) -> Arc<Notice> {
        self.shared.notice.load_full()
    }

    /// Lets a request in if that is possible at once.
    pub fn try_enter(&self, class: Priority) -> Result<Pass, Shut> {
        let now = self.shared.clock.now();
        match self.shared.core.lock().offer(now, class, None) {
            Offered::Enter => Ok(self.pass(now)),
            Offered::Refused(retry_after) => Err(Shut { retry_after }),
            Offered::Wait { .. } => Err(Shut { retry_after: None }),
        }
    }

    /// Lets a request in, after a short wait if that is what it takes.
    pub fn enter(&self, class: Priority) -> Enter {
        Enter::new(self, class)
    }

    /// Lets a request pass of which nobody will tell when it ends. Only a rate can hold it back.
    pub fn try_pass(&self, class: Priority) -> Result<(), Shut> {
        let now = self.shared.clock.now();
        let passed = self.shared.core.lock().offer_untimed(now, class);
        passed.map_err(|retry_after| Shut { retry_after: Some(retry_after) })
    }

    /// Lets a request in whatever holds. Answers too whether it would have been held back.
    pub fn watch(&self, class: Priority) -> (Pass, bool) {
        let now = self.shared.clock.now();
        let mut core = self.shared.core.lock();
        let held_back = !matches!(core.offer(now, class, None), Offered::Enter);
        if held_back {
            core.enter(now);
        }
        drop(core);
        (self.pass(now), held_back)
    }

    /// How many are inside.
    pub fn in_flight(&self) -> usize {
        self.shared.core.lock().in_flight()
    }

    /// How many wait for a place.
    pub fn waiting(&self) -> usize {
        self.shared.core.lock().waiting()
    }

    /// Whether a request would get in at once. Nothing is counted.
    pub fn look(&self, class: Priority) -> Result<(), Shut> {
        let now = self.shared.clock.now();
        self.shared.core.lock().look(now, class).map_err(|retry_after| Shut { retry_after })
    }

    /// The last second, and now.
    pub fn passing(&self) -> Passing {
        let now = self.shared.clock.now();
        self.shared.core.lock().passing(now)
    }

    /// What passed since this was last [taken](Self::take_lap).
    pub fn look_at_lap(&self) -> Lap {
        let now = self.shared.clock.now();
        self.shared.core.lock().look_at_lap(now)
    }

    /// What passed since this was last asked. For the one who turns the gate.
    pub fn take_lap(&self) -> Lap {
        let now = self.shared.clock.now();
        self.shared.core.lock().take_lap(now)
    }

    fn pass(&self, entered: Timestamp) -> Pass {
        Pass { gate: Arc::clone(&self.shared), entered, noted: None }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new(ClockHandle::system())
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("orders", &self.orders()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Changes the state, and then lets in or sends away whom that concerns.
    fn change(&self, act: impl FnOnce(&mut Core<Arc<Waiter>>, Timestamp)) {
        let now = self.clock.now();
        let mut told: SmallVec<[Arc<Waiter>; 4]> = SmallVec::new();
        let mut core = self.core.lock();
        act(&mut core, now);
        core.call(now, |waiter, fate| {
            waiter.decide(fate, now);
            told.push(waiter);
        });
        drop(core);
        told.iter().for_each(|waiter| waiter.wake());
    }
}

/// A request that was let in. Dropping it frees its place; unless something else was [noted](Self::note), it has been
/// answered well by then.
#[must_use = "dropping the pass ends the request"]
pub struct Pass {
    gate: Arc<Shared>,
    entered: Timestamp,
    /// How it went, and when that was known.
    noted: Option<(Ending, Timestamp)>,
}

/// What a gate learns from a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was answered: how long that took counts.
    Well,
    /// It failed in a way that is a sign of strain: it was cut off, took too long, or nobody was there to answer.
    Failed,
    /// Nothing: the client went away, or it never came to the service.
    Unknown,
}

impl Pass {
    /// When the request was let in.
    pub const fn entered(&self) -> Timestamp {
        self.entered
    }

    /// Notes how the request went, as soon as that is known: what comes after it, such as a client that takes its time
    /// to read the answer, says nothing about the service. The place is kept until the pass is dropped.
    pub fn note(&mut self, ending: Ending) {
        self.noted = Some((ending, self.gate.clock.now()));
    }

    /// Ends the request as if it had never come.
    pub fn give_back(mut self) {
        self.note(Ending::Unknown);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let Self { gate, entered, noted } = self;
        gate.change(|core, now| match noted.unwrap_or((Ending::Well, now)) {
            (Ending::Well, at) => core.finish(now, at - *entered, true),
            (Ending::Failed, at) => core.finish(now, at - *entered, false),
            (Ending::Unknown, _) => core.leave_inside(now),
        });
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("entered", &self.entered).finish_non_exhaustive()
    }
}
