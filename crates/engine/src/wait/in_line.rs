//! One caller's way through a line, from joining to leaving.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::room::{CannotJoin, Newcomer, Ticket};
use crate::clock::AlarmId;
use crate::decision::{Decision, Verdict};
use crate::limiter::{Inner, Reason};
use crate::table::KeyHash;
use crate::time::Timestamp;

/// What a caller waits for.
pub(crate) trait Turn: Unpin {
    /// What it holds once it is let in.
    type Pass;
    /// What it is told if it is not.
    type Refusal;

    /// The limiter whose line it stands in.
    fn limiter(&self) -> &Arc<Inner>;
    /// The key whose line it stands in.
    fn key(&self) -> KeyHash;
    /// What it takes from that limiter.
    fn cost(&self) -> u64;
    /// Asks to be let in now. If that hangs on something held elsewhere, `waker` is to be told.
    fn ask(&mut self, now: Timestamp, waker: &Waker) -> Asked<Self::Pass>;
    /// The longest wait that what it was told last allows, counted from its arrival.
    fn longest(&self) -> Option<Duration> {
        None
    }
    /// Whether it joins a line that is as long as it may be.
    fn even_if_full(&self) -> bool {
        false
    }
    /// Is told that it stands in line now.
    fn joined(&mut self, _now: Timestamp) {}
    /// Is told that it is not let in.
    fn refuse(&mut self, decision: Decision, reason: Reason) -> Self::Refusal;
}

/// The answer to somebody who asks to be let in.
pub(crate) enum Asked<P> {
    /// Go.
    Admitted(P),
    /// Wait, as the decision says.
    NotYet(Decision),
    /// There is no point in waiting.
    Refused(Decision),
}

/// A caller in line, or about to be. Dropping it leaves the line.
pub(crate) struct InLine<T: Turn> {
    turn: T,
    within: Option<Duration>,
    arrived: Option<Timestamp>,
    place: Option<Ticket>,
    alarm: Option<AlarmId>,
}

/// The latest moment there is: a deadline for those who have none.
const NO_DEADLINE: Timestamp = Timestamp::from_nanos(u64::MAX);

impl<T: Turn> InLine<T> {
    pub(crate) const fn new(turn: T, within: Option<Duration>) -> Self {
        Self { turn, within, arrived: None, place: None, alarm: None }
    }

    /// What the caller waits for.
    pub(crate) const fn turn_mut(&mut self) -> &mut T {
        &mut self.turn
    }

    /// Until when it waits at most, having arrived at `now` if not before.
    fn deadline(&mut self, now: Timestamp) -> Timestamp {
        let arrived = *self.arrived.get_or_insert(now);
        let longest = self.within.into_iter().chain(self.turn.longest()).min();
        longest.map_or(NO_DEADLINE, |longest| arrived + longest)
    }

    /// Takes at once, or joins the line. Answers how it ended unless it is in line now.
    fn arrive(&mut self, now: Timestamp, deadline: Timestamp, waker: &Waker) -> Option<Result<T::Pass, T::Refusal>> {
        let (key, cost) = (self.turn.key(), self.turn.cost());
        let decision = if cost > 0 && self.turn.limiter().has_line(key) {
            self.turn.limiter().behind_line(key, now, cost)
        } else {
            match self.turn.ask(now, waker) {
                Asked::Admitted(pass) => return Some(Ok(pass)),
                Asked::Refused(decision) => return Some(Err(self.turn.refuse(decision, Reason::Limit))),
                Asked::NotYet(decision) => decision,
            }
        };
        if let Some(reason) = self.hopeless(&decision, now, deadline) {
            return Some(Err(self.turn.refuse(decision, reason)));
        }
        let limiter = self.turn.limiter();
        let (plan, state) = limiter.snapshot(key, now);
        let newcomer = Newcomer { cost, deadline, even_if_full: self.turn.even_if_full() };
        match limiter.room.join(key, &plan, state, now, newcomer) {
            Ok(ticket) => {
                self.place = Some(ticket);
                self.turn.joined(now);
                None
            }
            Err(CannotJoin::Full) => Some(Err(self.turn.refuse(decision, Reason::LineFull))),
            Err(CannotJoin::TooLate(turn)) => {
                let verdict = Verdict::Denied { retry_after: Some(turn - now) };
                Some(Err(self.turn.refuse(Decision { verdict, ..decision }, Reason::Deadline)))
            }
        }
    }

    /// In line: goes if it is first and the limits admit it, else sees to it that it is woken.
    fn wait(&mut self, now: Timestamp, deadline: Timestamp, waker: &Waker) -> Poll<Result<T::Pass, T::Refusal>> {
        let Some(ticket) = self.place else { return Poll::Pending };
        let (key, cost) = (self.turn.key(), self.turn.cost());
        if !self.turn.limiter().room.is_first(key, ticket, waker) {
            if now > deadline {
                self.leave(None);
                let decision = self.turn.limiter().behind_line(key, now, cost);
                return Poll::Ready(Err(self.turn.refuse(decision, Reason::Deadline)));
            }
            // The one before may still leave at the very moment of the deadline.
            self.wake_at(deadline + Duration::from_nanos(1), waker);
            return Poll::Pending;
        }
        let decision = match self.turn.ask(now, waker) {
            Asked::Admitted(pass) => {
                self.leave(Some(now));
                return Poll::Ready(Ok(pass));
            }
            Asked::Refused(decision) => return self.give_up(decision, Reason::Limit),
            Asked::NotYet(decision) => decision,
        };
        // Another rule may refuse now, and let wait less long.
        let deadline = deadline.min(self.deadline(now));
        if let Some(reason) = self.hopeless(&decision, now, deadline) {
            return self.give_up(decision, reason);
        }
        let turn = decision.wait().map_or(deadline, |wait| now + wait);
        self.wake_at(turn.min(deadline), waker);
        Poll::Pending
    }

    /// Why there is no point in waiting any longer, if there is none.
    fn hopeless(&self, decision: &Decision, now: Timestamp, deadline: Timestamp) -> Option<Reason> {
        let least = match decision.verdict {
            Verdict::Allowed | Verdict::Wait(_) => return None,
            Verdict::Never => return Some(Reason::Limit),
            Verdict::Denied { retry_after: Some(wait) } => wait,
            Verdict::Denied { retry_after: None } if now >= deadline => return Some(Reason::Deadline),
            Verdict::Denied { retry_after: None } => {
                self.turn.limiter().least_wait(self.turn.key(), now, self.turn.cost())
            }
        };
        (now + least > deadline).then_some(Reason::Deadline)
    }

    fn give_up(&mut self, decision: Decision, reason: Reason) -> Poll<Result<T::Pass, T::Refusal>> {
        self.leave(None);
        Poll::Ready(Err(self.turn.refuse(decision, reason)))
    }

    fn wake_at(&mut self, at: Timestamp, waker: &Waker) {
        self.stop_alarm();
        if at < NO_DEADLINE {
            self.alarm = Some(self.turn.limiter().clock.set_alarm(at, waker.clone()));
        }
    }

    fn stop_alarm(&mut self) {
        if let Some(id) = self.alarm.take() {
            self.turn.limiter().clock.cancel_alarm(id);
        }
    }

    fn leave(&mut self, admitted_at: Option<Timestamp>) {
        self.stop_alarm();
        if let Some(ticket) = self.place.take() {
            self.turn.limiter().room.leave(self.turn.key(), ticket, admitted_at);
        }
    }
}

impl<T: Turn> Future for InLine<T> {
    type Output = Result<T::Pass, T::Refusal>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let now = this.turn.limiter().clock.now();
        let deadline = this.deadline(now);
        if this.place.is_none()
            && let Some(result) = this.arrive(now, deadline, context.waker())
        {
            return Poll::Ready(result);
        }
        this.wait(now, deadline, context.waker())
    }
}

impl<T: Turn> Drop for InLine<T> {
    fn drop(&mut self) {
        self.leave(None);
    }
}
