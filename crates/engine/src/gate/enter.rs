//! Coming in through a gate, after a wait if need be.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use super::core::{Fate, Offered};
use super::{Gate, Pass, Shut};
use crate::clock::Sleep;
use crate::rule::Priority;
use crate::time::Timestamp;

/// Somebody who waits at a gate.
pub(super) struct Waiter(Mutex<Told>);

#[derive(Default)]
struct Told {
    fate: Option<(Fate, Timestamp)>,
    waker: Option<Waker>,
}

impl Waiter {
    /// Decides its fate. To be done while the gate is locked: whoever is not in line any more has one.
    pub(super) fn decide(&self, fate: Fate, now: Timestamp) {
        self.0.lock().fate = Some((fate, now));
    }

    /// Wakes whoever waits to hear of it. To be done when the gate is not locked: some wakers run what they wake.
    pub(super) fn wake(&self) {
        let waker = self.0.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What it comes to, once its fate is decided.
    fn result(&self, gate: &Gate) -> Option<Result<Pass, Shut>> {
        let (fate, at) = self.0.lock().fate?;
        Some(match fate {
            Fate::Enters(_) => Ok(gate.pass(at)),
            Fate::SentAway => Err(Shut { retry_after: None }),
        })
    }
}

/// A request at a gate: decided at once, or waiting. Dropping it leaves the line.
#[must_use = "futures do nothing unless polled"]
pub struct Enter {
    gate: Gate,
    state: State,
}

enum State {
    Decided(Option<Result<Pass, Shut>>),
    Waiting { waiter: Arc<Waiter>, ticket: u64, sleep: Sleep },
}

impl Enter {
    pub(super) fn new(gate: &Gate, class: Priority) -> Self {
        let shared = &gate.shared;
        let now = shared.clock.now();
        let waiter = Arc::new(Waiter(Mutex::default()));
        let mut core = shared.core.lock();
        let patience = core.orders().line.patience;
        let offered = core.offer(now, class, Some(Arc::clone(&waiter)));
        if let Offered::Wait { sent_away: Some(other), .. } = &offered {
            other.decide(Fate::SentAway, now);
        }
        drop(core);
        let state = match offered {
            Offered::Enter => State::Decided(Some(Ok(gate.pass(now)))),
            Offered::Refused(retry_after) => State::Decided(Some(Err(Shut { retry_after }))),
            Offered::Wait { ticket, sent_away } => {
                if let Some(other) = sent_away {
                    other.wake();
                }
                // One nanosecond more: who has waited exactly as long as the patience lasts may still come in.
                let until = now + patience + Duration::from_nanos(1);
                State::Waiting { waiter, ticket, sleep: shared.clock.sleep_until(until) }
            }
        };
        Self { gate: gate.clone(), state }
    }

    /// Takes out what was decided, if there is nothing to wait for. Then this is done and never resolves.
    pub fn take(&mut self) -> Option<Result<Pass, Shut>> {
        match &mut self.state {
            State::Decided(decided) => decided.take(),
            State::Waiting { .. } => None,
        }
    }
}

impl Future for Enter {
    type Output = Result<Pass, Shut>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let State::Waiting { waiter, ticket, sleep } = &mut this.state else {
            // Polled again after it was ready: there is nothing more to come.
            return this.take().map_or(Poll::Pending, Poll::Ready);
        };
        waiter.0.lock().waker = Some(context.waker().clone());
        let decided = match waiter.result(&this.gate) {
            Some(decided) => decided,
            None if Pin::new(sleep).poll(context).is_pending() => return Poll::Pending,
            None => {
                let shared = &this.gate.shared;
                let waited = shared.core.lock().leave(shared.clock.now(), *ticket);
                let late = Err(Shut { retry_after: None });
                // Who is not in line any more has a fate by now.
                if waited { late } else { waiter.result(&this.gate).unwrap_or(late) }
            }
        };
        this.state = State::Decided(None);
        Poll::Ready(decided)
    }
}

impl Drop for Enter {
    fn drop(&mut self) {
        let State::Waiting { waiter, ticket, .. } = &self.state else { return };
        let shared = &self.gate.shared;
        let waited = shared.core.lock().leave(shared.clock.now(), *ticket);
        // Called in, but nobody came: the place is free again.
        if !waited && let Some(Ok(pass)) = waiter.result(&self.gate) {
            pass.give_back();
        }
    }
}

impl fmt::Debug for Enter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enter").field("waits", &matches!(self.state, State::Waiting { .. })).finish_non_exhaustive()
    }
}
