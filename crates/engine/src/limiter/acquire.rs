//! Waiting for a turn instead of being refused.
//!
//! Callers of one key stand in line and are let out first in, first out, each at the exact moment the
//! limits admit it. Nobody passes a line: a caller who does not want to wait is refused while others
//! do. Whoever cannot make it before its deadline is told at once, not after it. Dropping the future
//! leaves the line, and everybody behind moves up.

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use super::{Inner, Pass, Reason, Refused};
use crate::algorithm::Entry;
use crate::clock::AlarmId;
use crate::decision::{Decision, Verdict};
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::{CannotJoin, Ticket};

/// A wish to be let in. Await it, or wait for it with [`Acquire::blocking`].
///
/// ```
/// use sluicegate_engine::{Limiter, Limit, Rate};
/// use std::time::Duration;
///
/// let paced = Limiter::new(Limit::leaky_bucket(Rate::per_second(1_000)?, 10)?);
/// for _ in 0..3 {
///     paced.acquire().within(Duration::from_secs(1)).blocking()?; // a millisecond apart
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is acquired until this is awaited or `blocking` is called"]
pub struct Acquire {
    inner: Arc<Inner>,
    key: KeyHash,
    cost: u64,
    within: Option<Duration>,
}

impl Acquire {
    pub(super) fn new(inner: Arc<Inner>, key: KeyHash) -> Self {
        Self { inner, key, cost: 1, within: None }
    }

    /// What to take; 1 unless told otherwise.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The longest wait. Without it, as long as it takes.
    pub fn within(mut self, longest: Duration) -> Self {
        self.within = Some(longest);
        self
    }

    /// Waits on this thread.
    pub fn blocking(self) -> Result<Pass, Refused> {
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut acquiring = pin!(self.into_future());
        loop {
            match acquiring.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(result) => return result,
                Poll::Pending => std::thread::park(),
            }
        }
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Pass, Refused>;
    type IntoFuture = Acquiring;

    fn into_future(self) -> Acquiring {
        Acquiring { wish: self, deadline: None, place: None, alarm: None }
    }
}

/// A caller in line, or about to be.
#[must_use = "futures do nothing unless polled"]
pub struct Acquiring {
    wish: Acquire,
    deadline: Option<Timestamp>,
    place: Option<Ticket>,
    alarm: Option<(Timestamp, AlarmId)>,
}

/// The latest moment there is: a deadline for those who have none.
const NO_DEADLINE: Timestamp = Timestamp::from_nanos(u64::MAX);

impl Future for Acquiring {
    type Output = Result<Pass, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let now = this.wish.inner.clock.now();
        let deadline = *this.deadline.get_or_insert_with(|| this.wish.within.map_or(NO_DEADLINE, |span| now + span));
        if this.place.is_none() {
            if let Some(result) = this.arrive(now, deadline) {
                return Poll::Ready(result);
            }
        }
        this.wait(now, deadline, context.waker())
    }
}

impl Acquiring {
    /// Takes at once, or joins the line. Answers how it ended unless it is in line now.
    fn arrive(&mut self, now: Timestamp, deadline: Timestamp) -> Option<Result<Pass, Refused>> {
        let Acquire { inner, key, cost, .. } = &self.wish;
        let decision = if *cost > 0 && inner.has_line(*key) {
            inner.behind_line(*key, now, *cost)
        } else {
            let tried = inner.take(*key, now, *cost, Entry::Depart);
            if let Some(taking) = tried.taken {
                return Some(Ok(Pass::new(inner, *key, taking, tried.decision)));
            }
            tried.decision
        };
        if let Some(reason) = hopeless(&decision, now, deadline) {
            return Some(Err(Refused { decision, reason }));
        }
        let (plan, state) = inner.snapshot(*key, now);
        match inner.room.join(*key, &plan, state, now, *cost, deadline) {
            Ok(ticket) => {
                self.place = Some(ticket);
                None
            }
            Err(CannotJoin::Full) => Some(Err(Refused { decision, reason: Reason::LineFull })),
            Err(CannotJoin::TooLate(turn)) => {
                let verdict = Verdict::Denied { retry_after: Some(turn - now) };
                Some(Err(Refused { decision: Decision { verdict, ..decision }, reason: Reason::Deadline }))
            }
        }
    }

    /// In line: goes if it is first and the limits admit it, else sees to it that it is woken.
    fn wait(&mut self, now: Timestamp, deadline: Timestamp, waker: &Waker) -> Poll<Result<Pass, Refused>> {
        let Acquire { inner, key, cost, .. } = &self.wish;
        let (inner, key, cost) = (Arc::clone(inner), *key, *cost);
        let Some(ticket) = self.place else { return Poll::Pending };
        if !inner.room.is_first(key, ticket, waker) {
            if now > deadline {
                let decision = inner.behind_line(key, now, cost);
                self.leave(false);
                return Poll::Ready(Err(Refused { decision, reason: Reason::Deadline }));
            }
            // The one before may still leave at the very moment of the deadline.
            self.wake_at(deadline + Duration::from_nanos(1), waker);
            return Poll::Pending;
        }
        let tried = inner.take(key, now, cost, Entry::Depart);
        if let Some(taking) = tried.taken {
            self.leave(true);
            return Poll::Ready(Ok(Pass::new(&inner, key, taking, tried.decision)));
        }
        if let Some(reason) = hopeless(&tried.decision, now, deadline) {
            self.leave(false);
            return Poll::Ready(Err(Refused { decision: tried.decision, reason }));
        }
        let turn = tried.decision.wait().map_or(deadline, |wait| now + wait);
        self.wake_at(turn.min(deadline), waker);
        Poll::Pending
    }

    fn wake_at(&mut self, at: Timestamp, waker: &Waker) {
        if at == NO_DEADLINE || self.alarm.is_some_and(|(set, _)| set == at) {
            return;
        }
        self.stop_alarm();
        self.alarm = Some((at, self.wish.inner.clock.set_alarm(at, waker.clone())));
    }

    fn stop_alarm(&mut self) {
        if let Some((_, id)) = self.alarm.take() {
            self.wish.inner.clock.cancel_alarm(id);
        }
    }

    fn leave(&mut self, in_turn: bool) {
        self.stop_alarm();
        if let Some(ticket) = self.place.take() {
            self.wish.inner.room.leave(self.wish.key, ticket, in_turn);
        }
    }
}

/// Why there is no point in waiting any longer, if there is none.
fn hopeless(decision: &Decision, now: Timestamp, deadline: Timestamp) -> Option<Reason> {
    match decision.verdict {
        Verdict::Never => Some(Reason::Limit),
        Verdict::Denied { retry_after: Some(wait) } if now + wait > deadline => Some(Reason::Deadline),
        Verdict::Denied { retry_after: None } if now >= deadline => Some(Reason::Deadline),
        _ => None,
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        self.leave(false);
    }
}
