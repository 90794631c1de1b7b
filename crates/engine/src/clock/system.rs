//! System clock: the CPU's time-stamp counter, anchored to the wall clock once at startup.
//!
//! Reading the counter costs a third of a kernel call. If the counter is not stable, the `quanta` crate falls
//! back to the kernel's monotonic clock. Counters of different cores can disagree slightly, so each thread
//! keeps its time monotonic.

use std::cell::Cell;
use std::sync::OnceLock;
use std::task::Waker;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use super::timers::Timers;
use super::{Clock, TimerId};
use crate::time::Timestamp;

/// The system clock. All instances are the same clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// Counter value at a known time, and the counter's frequency.
pub(super) struct CounterAnchor {
    counter: quanta::Clock,
    raw: u64,
    nanos: u64,
    /// Nanoseconds per count, times 2^32.
    scale: u64,
}

static ANCHOR: OnceLock<CounterAnchor> = OnceLock::new();

thread_local! {
    static LAST_SEEN: Cell<u64> = const { Cell::new(0) };
}

impl CounterAnchor {
    fn calibrate() -> Self {
        let counter = quanta::Clock::new();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let raw = counter.raw();
        let scale = counter.delta_as_nanos(0, 1 << 40) >> 8;
        Self { counter, raw, nanos: Timestamp::from_unix(wall).as_nanos(), scale }
    }

    pub(super) fn get() -> &'static Self {
        ANCHOR.get_or_init(Self::calibrate)
    }

    #[inline(always)]
    pub(super) fn now(&self) -> Timestamp {
        let counted = self.counter.raw().saturating_sub(self.raw);
        let now = self.nanos + ((u128::from(counted) * u128::from(self.scale)) >> 32) as u64;
        let now = LAST_SEEN.with(|latest| {
            let now = now.max(latest.get());
            latest.set(now);
            now
        });
        Timestamp::from_nanos(now)
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        CounterAnchor::get().now()
    }

    fn schedule(&self, at: Timestamp, waker: Waker) -> TimerId {
        let timer = TimerThread::start();
        let (id, soonest) = {
            let mut timers = timer.timers.lock();
            let id = timers.insert(at, waker);
            (id, timers.next_deadline() == Some(at))
        };
        if soonest {
            timer.changed.notify_one();
        }
        id
    }

    fn cancel(&self, id: TimerId) {
        if let Some(timer) = TIMER_THREAD.get() {
            let waker = timer.timers.lock().cancel(id);
            drop(waker);
        }
    }
}

/// Timer thread that wakes all tasks sleeping on the system clock.
#[derive(Default)]
struct TimerThread {
    timers: Mutex<Timers>,
    changed: Condvar,
}

static TIMER_THREAD: OnceLock<TimerThread> = OnceLock::new();

impl TimerThread {
    fn start() -> &'static Self {
        static STARTED: OnceLock<()> = OnceLock::new();
        let timer = TIMER_THREAD.get_or_init(Self::default);
        STARTED.get_or_init(|| {
            let thread = std::thread::Builder::new().name("sluicegate-timer".to_owned());
            // Without the thread no task would be woken; polling again still makes progress.
            drop(thread.spawn(|| timer.run()));
        });
        timer
    }

    fn run(&self) {
        let mut timers = self.timers.lock();
        loop {
            let due = timers.take_due(SystemClock.now());
            if !due.is_empty() {
                // Wakers are foreign code: call them without holding the lock.
                parking_lot::MutexGuard::unlocked(&mut timers, || due.into_iter().for_each(Waker::wake));
                continue;
            }
            match timers.next_deadline() {
                None => self.changed.wait(&mut timers),
                Some(at) => {
                    let wait = at.saturating_since(SystemClock.now());
                    self.changed.wait_for(&mut timers, wait);
                }
            }
        }
    }
}
