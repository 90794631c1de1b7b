//! One destination: its pacer, and the line of those it holds back.
//!
//! First in, first out: whoever is first in line asks the pacer, the others wait for it to leave. A
//! request that was let go is a [`Claim`]; once it is on its way it is [`InFlight`], until its answer
//! comes. Dropping either tells the pacer what became of it, exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_http::advice::Advice;

use super::pacer::{Hold, Mark, Pace, Pacer};

/// A destination. Whoever is on the way there, or waits for it, keeps it alive.
#[derive(Debug)]
pub(super) struct Destination {
    name: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pacer: Pacer,
    line: BTreeMap<Place, Waker>,
    arrivals: u64,
}

/// A place in line, by arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u64);

/// What a request is told that cannot go now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    /// In line. To be woken at this moment, if not before.
    Wait(Timestamp),
    /// It could not go before its deadline: not before this moment.
    TooLate(Timestamp, Hold),
    /// Too many are waiting already; it could not go before this moment anyway.
    LineFull(Timestamp),
}

/// How those who wait are bounded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) deadline: Timestamp,
    pub(super) most_waiting: usize,
}

/// What an operator sees of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationState {
    /// The service, or host and port.
    pub name: String,
    /// For how long nothing is sent, because the server asked for it.
    pub held_for: Option<Duration>,
    /// How many may still be sent, as the server said or as is supposed after a reset, and for how
    /// long that counts.
    pub left: Option<(u64, Duration)>,
    /// Requests that were sent and not answered yet.
    pub in_flight: u64,
    /// Requests that wait for their turn.
    pub waiting: usize,
}

impl Destination {
    pub(super) fn new(name: Arc<str>, pace: Pace, longest: Duration) -> Arc<Self> {
        let state = State { pacer: Pacer::new(pace, longest), line: BTreeMap::new(), arrivals: 0 };
        Arc::new(Self { name, state: Mutex::new(state) })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// A new arrival's place; not in line yet.
    pub(super) fn arrive(&self) -> Place {
        let mut state = self.state.lock();
        state.arrivals += 1;
        Place(state.arrivals)
    }

    /// Lets the request at this place go, or puts it in line.
    pub(super) fn ask(
        self: &Arc<Self>,
        place: Place,
        now: Timestamp,
        patience: Patience,
        waker: &Waker,
    ) -> Result<Claim, NotNow> {
        let mut state = self.state.lock();
        let ahead = state.line.range(..place).count();
        let (turn, hold) = if ahead == 0 {
            match state.pacer.send(now) {
                Ok(mark) => {
                    let left = state.line.remove(&place);
                    let next = state.first();
                    drop(state);
                    drop(left);
                    wake(next);
                    return Ok(Claim { destination: Arc::clone(self), mark: Some(mark) });
                }
                Err(held) => held,
            }
        } else {
            state.pacer.turn(now, ahead as u64)
        };
        let in_line = state.line.contains_key(&place);
        let refused = if turn > patience.deadline {
            Some(NotNow::TooLate(turn, hold))
        } else if !in_line && ahead >= patience.most_waiting {
            Some(NotNow::LineFull(turn))
        } else {
            None
        };
        if let Some(refused) = refused {
            drop(state);
            self.leave(place);
            return Err(refused);
        }
        let outdated = state.line.insert(place, waker.clone());
        drop(state);
        drop(outdated);
        // Behind others: they wake us when they leave, unless the deadline passes first.
        Err(NotNow::Wait(if ahead == 0 { turn } else { patience.deadline + Duration::from_nanos(1) }))
    }

    /// Leaves the line; does nothing if it was not in it.
    pub(super) fn leave(&self, place: Place) {
        let mut state = self.state.lock();
        let left = state.line.remove(&place);
        let next = left.as_ref().and_then(|_| state.first());
        drop(state);
        drop(left);
        wake(next);
    }

    /// Obeys what an answer asks.
    pub(super) fn hold(&self, hold: Duration, jitter: Duration, now: Timestamp) {
        self.tell(|pacer| pacer.hold(hold, jitter, now));
    }

    /// Changes what the pacer knows, and wakes whom it concerns: all if something holds them back that
    /// did not before, as some may have no hope left; else the first, who may be able to go.
    fn tell(&self, change: impl FnOnce(&mut Pacer) -> bool) {
        let mut state = self.state.lock();
        let concerned = if change(&mut state.pacer) { usize::MAX } else { 1 };
        let wakers: Vec<Waker> = state.line.values().take(concerned).cloned().collect();
        drop(state);
        wake(wakers);
    }

    pub(super) fn state(&self, now: Timestamp) -> DestinationState {
        let state = self.state.lock();
        DestinationState {
            name: self.name.to_string(),
            held_for: state.pacer.held_until(now).map(|until| until - now),
            left: state.pacer.left(now).map(|(left, until)| (left, until - now)),
            in_flight: state.pacer.in_flight(),
            waiting: state.line.len(),
        }
    }

    /// When everything its answers said is over.
    pub(super) fn recovered_at(&self) -> Timestamp {
        self.state.lock().pacer.recovered_at()
    }
}

impl State {
    fn first(&self) -> Option<Waker> {
        self.line.first_key_value().map(|(_, waker)| waker.clone())
    }
}

/// Wakers are foreign code: they are called without the lock.
fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// A request that may go. Dropped, it is as if it had never asked.
#[derive(Debug)]
pub(super) struct Claim {
    destination: Arc<Destination>,
    mark: Option<Mark>,
}

impl Claim {
    /// Puts the request on its way, unless something was said meanwhile that holds it back.
    pub(super) fn depart(mut self, now: Timestamp) -> Option<InFlight> {
        if !self.destination.state.lock().pacer.may_still_go(now) {
            return None;
        }
        let mark = self.mark.take();
        Some(InFlight { destination: Arc::clone(&self.destination), mark })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(mark) = self.mark.take() {
            self.destination.tell(|pacer| {
                pacer.unsend(&mark);
                false
            });
        }
    }
}

/// A request on its way. Dropped, it ended without an answer.
#[derive(Debug)]
pub(super) struct InFlight {
    destination: Arc<Destination>,
    mark: Option<Mark>,
}

impl InFlight {
    /// Its answer has come.
    pub(super) fn answered(mut self, advice: &Advice, jitter: Duration, now: Timestamp) -> Arc<Destination> {
        if let Some(mark) = self.mark.take() {
            self.destination.tell(|pacer| {
                let held = advice.hold_for.is_some_and(|hold| pacer.hold(hold, jitter, now));
                pacer.answered(&mark, advice.budget.as_ref(), now) | held
            });
        }
        Arc::clone(&self.destination)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.mark.take().is_some() {
            self.destination.tell(|pacer| {
                pacer.ended();
                false
            });
        }
    }
}
