//! What the tests of limiters share: a hand-turned executor, and limits said briefly.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use sluicegate_engine::algorithm::Alignment;
use sluicegate_engine::clock::{Clock, ManualClock};
use sluicegate_engine::{Limit, Limiter, Pass, Rate, Refused, Verdict};

/// Counts how often it was woken.
#[derive(Default)]
pub(crate) struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future polled by hand. It is polled again only when its waker was called, as an executor would.
pub(crate) struct Task<F: Future> {
    future: Option<Pin<Box<F>>>,
    bell: Arc<Bell>,
    heard: usize,
}

impl<F: Future> Task<F> {
    pub(crate) fn new(future: impl IntoFuture<IntoFuture = F>) -> Self {
        Self { future: Some(Box::pin(future.into_future())), bell: Arc::default(), heard: 0 }
    }

    /// Whether its waker was called since it was last polled.
    pub(crate) fn is_woken(&self) -> bool {
        self.bell.0.load(Ordering::SeqCst) > self.heard
    }

    /// Polls it whether it was woken or not.
    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        self.heard = self.bell.0.load(Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.bell));
        let future = self.future.as_mut().expect("polled after it was done");
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

    /// From now on another waker is handed in.
    pub(crate) fn change_waker(&mut self) -> Arc<Bell> {
        self.heard = 0;
        std::mem::take(&mut self.bell)
    }

    /// Polls once; it must be done.
    pub(crate) fn now(mut self) -> F::Output {
        match self.poll() {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it should have been decided at once"),
        }
    }
}

impl Bell {
    pub(crate) fn rung(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// Starts a future that must have to wait.
pub(crate) fn waiting<F: Future>(future: impl IntoFuture<IntoFuture = F>) -> Task<F> {
    let mut task = Task::new(future);
    assert!(task.poll().is_pending(), "it should have had to wait");
    task
}

/// One who left: which task, and when, counted from the start.
#[derive(Debug)]
pub(crate) struct Left<T> {
    pub(crate) task: usize,
    pub(crate) at: Duration,
    pub(crate) output: T,
}

/// Turns the clock from alarm to alarm and polls whoever is woken, until nobody can go on. Outputs are
/// kept, so what they hold stays held.
pub(crate) fn run<F: Future>(clock: &ManualClock, tasks: &mut [Task<F>]) -> Vec<Left<F::Output>> {
    let start = clock.now();
    let mut left = Vec::new();
    loop {
        poll_woken(clock, start, tasks, &mut left);
        match clock.next_alarm() {
            Some(next) => clock.set(next.max(clock.now())),
            None => return left,
        }
    }
}

/// Polls whoever is woken until nobody is. The last task comes first, so that order of arrival is not
/// kept by accident.
pub(crate) fn poll_woken<F: Future>(
    clock: &ManualClock,
    start: sluicegate_engine::Timestamp,
    tasks: &mut [Task<F>],
    left: &mut Vec<Left<F::Output>>,
) {
    let mut any = true;
    while any {
        any = false;
        for (task, future) in tasks.iter_mut().enumerate().rev() {
            any |= future.is_woken() && future.future.is_some();
            if let Some(output) = future.poll_if_woken() {
                left.push(Left { task, at: clock.now() - start, output });
            }
        }
    }
}

/// Moves the clock and polls whoever is woken by it.
pub(crate) fn advance<F: Future>(clock: &ManualClock, by: Duration, tasks: &mut [Task<F>]) -> Vec<Left<F::Output>> {
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

/// Whether both are windows of one kind and length.
pub(crate) fn differ_in_amount_alone(old: &Limit, new: &Limit) -> bool {
    let alignment = |limit: &Limit| if let Limit::FixedWindow(it) = limit { Some(it.alignment()) } else { None };
    let is_window = matches!(
        old,
        Limit::FixedWindow(_) | Limit::SlidingWindow(_) | Limit::SlidingLog(_) | Limit::InterpolatedWindow(_)
    );
    is_window && old.algorithm() == new.algorithm() && old.window() == new.window() && alignment(old) == alignment(new)
}

/// The most that can be had after a change of a limit of which so much was left.
pub(crate) fn most_after_change(old: &Limit, new: &Limit, left: u64) -> u64 {
    if differ_in_amount_alone(old, new) {
        // What was taken in the window stays taken.
        return new.capacity().saturating_sub(old.capacity() - left);
    }
    // Whoever has all of the old limit is as if never seen, and so has all of the new one.
    if left == old.capacity() { new.capacity() } else { left.min(new.capacity()) }
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

/// The wait a refusal promises.
pub(crate) fn wait_of(refused: Result<Pass, Refused>) -> Option<Duration> {
    match refused.unwrap_err().decision.verdict {
        Verdict::Denied { retry_after } => retry_after,
        other => panic!("refused for now, not {other:?}"),
    }
}

/// Numbers that look random and are the same every time.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}
