//! Shared test support: a manual executor and short constructors for limits.
#![allow(dead_code, reason = "each test file uses a part")]

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{AcquireError, Limit, Limiter, Permit, Rate, Verdict};

/// Waker that counts its wakeups.
#[derive(Default)]
pub(crate) struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Manually polled future. Like in an executor, it is polled again only after a wakeup.
pub(crate) struct Task<F: Future> {
    future: Option<Pin<Box<F>>>,
    wakeups: Arc<CountingWaker>,
    seen_wakeups: usize,
}

impl<F: Future> Task<F> {
    pub(crate) fn new(future: impl IntoFuture<IntoFuture = F>) -> Self {
        Self { future: Some(Box::pin(future.into_future())), wakeups: Arc::default(), seen_wakeups: 0 }
    }

    /// True if its waker was called since the last poll.
    pub(crate) fn is_woken(&self) -> bool {
        self.wakeups.0.load(Ordering::SeqCst) > self.seen_wakeups
    }

    /// Polls it even without a wakeup.
    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        self.seen_wakeups = self.wakeups.0.load(Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.wakeups));
        let future = self.future.as_mut().expect("polled after completion");
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        if poll.is_ready() {
            self.future = None;
        }
        poll
    }

    /// Polls it if it was woken.
    pub(crate) fn poll_if_woken(&mut self) -> Option<F::Output> {
        if self.future.is_none() || !self.is_woken() {
            return None;
        }
        match self.poll() {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Replaces the waker for later polls.
    pub(crate) fn change_waker(&mut self) -> Arc<CountingWaker> {
        self.seen_wakeups = 0;
        std::mem::take(&mut self.wakeups)
    }

    /// Polls once; the future must be ready.
    pub(crate) fn now(mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("expected an immediate decision"),
        }
    }
}

impl CountingWaker {
    pub(crate) fn wake_count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Starts a future that must be pending.
pub(crate) fn waiting<F: Future>(future: impl IntoFuture<IntoFuture = F>) -> Task<F> {
    let mut task = Task::new(future);
    assert!(task.poll().is_pending(), "expected a wait");
    task
}

/// Completed task: its index and the time since the start.
#[derive(Debug)]
pub(crate) struct Completed<T> {
    pub(crate) task: usize,
    pub(crate) at: Duration,
    pub(crate) output: T,
}

/// Advances the clock from timer to timer and polls woken tasks until no task makes progress. Outputs are kept,
/// so their permits stay held.
pub(crate) fn run<F: Future>(clock: &ManualClock, tasks: &mut [Task<F>]) -> Vec<Completed<F::Output>> {
    let start = clock.now();
    let mut left = Vec::new();
    loop {
        poll_woken(clock, start, tasks, &mut left);
        match clock.next_timer() {
            Some(next) => clock.set(next.max(clock.now())),
            None => return left,
        }
    }
}

/// Polls woken tasks until there are none. The last task is polled first, so that FIFO order is not kept by
/// accident.
pub(crate) fn poll_woken<F: Future>(
    clock: &ManualClock,
    start: sluicegate_engine::Timestamp,
    tasks: &mut [Task<F>],
    left: &mut Vec<Completed<F::Output>>,
) {
    let mut any = true;
    while any {
        any = false;
        for (task, future) in tasks.iter_mut().enumerate().rev() {
            any |= future.is_woken() && future.future.is_some();
            if let Some(output) = future.poll_if_woken() {
                left.push(Completed { task, at: clock.now() - start, output });
            }
        }
    }
}

/// Advances the clock and polls the woken tasks.
pub(crate) fn advance<F: Future>(
    clock: &ManualClock,
    by: Duration,
    tasks: &mut [Task<F>],
) -> Vec<Completed<F::Output>> {
    let start = clock.now();
    clock.advance(by);
    let mut left = Vec::new();
    poll_woken(clock, start, tasks, &mut left);
    left
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const NANO: Duration = Duration::from_nanos(1);

/// True if both are windows of the same kind and length.
pub(crate) fn differ_in_amount_alone(old: &Limit, new: &Limit) -> bool {
    let alignment = |limit: &Limit| if let Limit::FixedWindow(it) = limit { Some(it.alignment()) } else { None };
    let is_window = matches!(
        old,
        Limit::FixedWindow(_) | Limit::SlidingWindow(_) | Limit::SlidingLog(_) | Limit::InterpolatedWindow(_)
    );
    is_window && old.algorithm() == new.algorithm() && old.window() == new.window() && alignment(old) == alignment(new)
}

/// Maximum available after a change of a limit with this remaining amount.
pub(crate) fn max_after_change(old: &Limit, new: &Limit, remaining: u64) -> u64 {
    if differ_in_amount_alone(old, new) {
        // Usage of the window is carried over.
        return new.capacity().saturating_sub(old.capacity() - remaining);
    }
    // A key with the full old limit counts as unknown and so has the full new limit.
    if remaining == old.capacity() { new.capacity() } else { remaining.min(new.capacity()) }
}

pub(crate) fn rate(text: &str) -> Rate {
    text.parse().unwrap()
}

pub(crate) fn bucket(per: &str, burst: u64) -> Limit {
    Limit::token_bucket(rate(per), burst).unwrap()
}

pub(crate) fn leaky(per: &str, queue: u64) -> Limit {
    Limit::leaky_bucket(rate(per), queue).unwrap()
}

pub(crate) fn permits(limit: u64) -> Limit {
    Limit::concurrency(limit).unwrap()
}

pub(crate) fn fixed(limit: u64, window: Duration) -> Limit {
    Limit::fixed_window(limit, window, Alignment::FirstUse).unwrap()
}

pub(crate) fn log(limit: u64, window: Duration) -> Limit {
    Limit::sliding_log(limit, window).unwrap()
}

pub(crate) fn sliding(limit: u64, window: Duration, cells: u32) -> Limit {
    Limit::sliding_window(limit, window, cells).unwrap()
}

pub(crate) fn limiter(clock: &ManualClock, limits: impl IntoIterator<Item = Limit>) -> Limiter {
    Limiter::builder().limits(limits).clock(clock.clone()).build().unwrap()
}

/// Wait promised by a refusal.
pub(crate) fn wait_of(result: Result<Permit, AcquireError>) -> Option<Duration> {
    match result.unwrap_err().decision.verdict {
        Verdict::Denied { retry_after } => retry_after,
        other => panic!("refused for now, not {other:?}"),
    }
}
