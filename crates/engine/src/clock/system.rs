//! The real clock: the processor's time-stamp counter, set by the wall clock once at the start.
//!
//! Reading the counter costs a third of asking the kernel. Where it is not steady, the `quanta` crate
//! falls back to the kernel's monotonic clock. Counters of different cores have been seen to disagree
//! by a little, so a thread never sees time earlier than it saw before.

use std::cell::Cell;
use std::sync::OnceLock;
use std::task::Waker;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use super::alarms::Alarms;
use super::{AlarmId, Clock};
use crate::time::Timestamp;

/// The machine's clock. All of them are one.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Where the counter stood at a known moment, and how fast it goes.
pub(super) struct Anchor {
    counter: quanta::Clock,
    raw: u64,
    nanos: u64,
    /// Nanoseconds per count, times 2^32.
    scale: u64,
}

static ANCHOR: OnceLock<Anchor> = OnceLock::new();

thread_local! {
    static LATEST: Cell<u64> = const { Cell::new(0) };
}

impl Anchor {
    fn here() -> Self {
        let counter = quanta::Clock::new();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let raw = counter.raw();
        let scale = counter.delta_as_nanos(0, 1 << 40) >> 8;
        Self { counter, raw, nanos: Timestamp::from_unix(wall).as_nanos(), scale }
    }

    pub(super) fn get() -> &'static Self {
        ANCHOR.get_or_init(Self::here)
    }

    #[inline(always)]
    pub(super) fn now(&self) -> Timestamp {
        let counted = self.counter.raw().saturating_sub(self.raw);
        let now = self.nanos + ((u128::from(counted) * u128::from(self.scale)) >> 32) as u64;
        let now = LATEST.with(|latest| {
            let now = now.max(latest.get());
            latest.set(now);
            now
        });
        Timestamp::from_nanos(now)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Anchor::get().now()
    }

    fn set_alarm(&self, at: Timestamp, waker: Waker) -> AlarmId {
        let timer = Timer::running();
        let (id, soonest) = {
            let mut alarms = timer.alarms.lock();
            let id = alarms.set(at, waker);
            (id, alarms.next() == Some(at))
        };
        if soonest {
            timer.changed.notify_one();
        }
        id
    }

    fn cancel_alarm(&self, id: AlarmId) {
        if let Some(timer) = TIMER.get() {
            let waker = timer.alarms.lock().cancel(id);
            drop(waker);
        }
    }
}

/// The one thread that wakes everybody who waits on the system's clock.
#[derive(Default)]
struct Timer {
    alarms: Mutex<Alarms>,
    changed: Condvar,
}

static TIMER: OnceLock<Timer> = OnceLock::new();

impl Timer {
    fn running() -> &'static Self {
        static STARTED: OnceLock<()> = OnceLock::new();
        let timer = TIMER.get_or_init(Self::default);
        STARTED.get_or_init(|| {
            let thread = std::thread::Builder::new().name("sluicegate-timer".to_owned());
            // Without a thread nobody would ever be woken; polling it again still makes progress.
            drop(thread.spawn(|| timer.run()));
        });
        timer
    }

    fn run(&self) {
        let mut alarms = self.alarms.lock();
        loop {
            let due = alarms.due(SystemClock.now());
            if !due.is_empty() {
                // Wakers are foreign code: run them without the lock.
                parking_lot::MutexGuard::unlocked(&mut alarms, || due.into_iter().for_each(Waker::wake));
                continue;
            }
            match alarms.next() {
                None => self.changed.wait(&mut alarms),
                Some(at) => {
                    let wait = at.saturating_since(SystemClock.now());
                    self.changed.wait_for(&mut alarms, wait);
                }
            }
        }
    }
}
