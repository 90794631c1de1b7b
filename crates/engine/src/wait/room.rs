//! The wait room: who waits for which key, in which order.
//!
//! Only the first in line asks the limiter; the others sleep. Whoever leaves wakes the next. The line
//! remembers what the state will be once everybody in it has left, so a newcomer is told its turn
//! without asking everybody before it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::Mutex;

use crate::plan::Plan;
use crate::table::KeyHash;
use crate::time::Timestamp;

/// How many may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// On one key.
    pub(crate) per_key: usize,
    /// Over all keys.
    pub(crate) total: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { per_key: 1_024, total: 65_536 }
    }
}

/// Lines of waiting callers.
pub(crate) struct WaitRoom {
    bounds: Bounds,
    /// Callers in all lines; lets those who do not wait pass without taking the lock.
    waiting: AtomicUsize,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    by_key: HashMap<KeyHash, Line>,
    tickets: u64,
}

#[derive(Default)]
struct Line {
    waiters: VecDeque<Waiter>,
    /// The state after all of them have left, and when the last one does. `None` when unknown.
    end: Option<(Vec<u64>, Timestamp)>,
}

struct Waiter {
    ticket: Ticket,
    cost: u64,
    waker: Option<Waker>,
}

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// Why nobody can join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CannotJoin {
    /// The line is as long as it may be.
    Full,
    /// The turn would come then, after the deadline.
    TooLate(Timestamp),
}

impl Line {
    /// The state after everybody in line has left and when that is, starting from the present state.
    /// The moment is `None` if no clock can tell.
    fn end(&self, plan: &Plan, state: &mut [u64], now: Timestamp) -> Option<Timestamp> {
        if let Some((end, at)) = &self.end
            && end.len() == state.len()
        {
            state.copy_from_slice(end);
            return Some((*at).max(now));
        }
        self.waiters.iter().try_fold(now, |at, waiter| plan.forecast(state, at, waiter.cost))
    }

    /// Forgets what was foretold; answers who has to be woken to ask again.
    fn reconsider(&mut self) -> Option<Waker> {
        self.end = None;
        self.waiters.front().and_then(|first| first.waker.clone())
    }
}

impl WaitRoom {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, waiting: AtomicUsize::new(0), lines: Mutex::default() }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn is_occupied(&self) -> bool {
        self.waiting() > 0
    }

    #[inline(never)]
    pub(crate) fn has_line(&self, key: KeyHash) -> bool {
        self.lines.lock().by_key.contains_key(&key)
    }

    /// When a caller who joined now would have its turn. `state` is the key's present one.
    pub(crate) fn forecast(
        &self,
        key: KeyHash,
        plan: &Plan,
        state: &mut [u64],
        now: Timestamp,
        cost: u64,
    ) -> Option<Timestamp> {
        let end = match self.lines.lock().by_key.get(&key) {
            Some(line) => line.end(plan, state, now)?,
            None => now,
        };
        plan.forecast(state, end, cost)
    }

    /// Joins the line of a key, if there is room and its turn comes by `deadline`.
    pub(crate) fn join(
        &self,
        key: KeyHash,
        plan: &Plan,
        mut state: Vec<u64>,
        now: Timestamp,
        cost: u64,
        deadline: Timestamp,
    ) -> Result<Ticket, CannotJoin> {
        let mut lines = self.lines.lock();
        if self.waiting() >= self.bounds.total {
            return Err(CannotJoin::Full);
        }
        let mut end = Some(now);
        if let Some(line) = lines.by_key.get(&key) {
            if line.waiters.len() >= self.bounds.per_key {
                return Err(CannotJoin::Full);
            }
            end = line.end(plan, &mut state, now);
        } else if self.bounds.per_key == 0 {
            return Err(CannotJoin::Full);
        }
        if end.is_some() && !plan.line_has_room(&state, now, cost) {
            return Err(CannotJoin::Full);
        }
        let turn = end.and_then(|end| plan.forecast(&mut state, end, cost));
        if let Some(turn) = turn
            && turn > deadline
        {
            return Err(CannotJoin::TooLate(turn));
        }
        lines.tickets += 1;
        let ticket = Ticket(lines.tickets);
        let line = lines.by_key.entry(key).or_default();
        line.waiters.push_back(Waiter { ticket, cost, waker: None });
        line.end = turn.map(|turn| (state, turn));
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(ticket)
    }

    /// Whether this caller is first in line. If it is not, or has to wait all the same, `waker` is
    /// what wakes it.
    pub(crate) fn is_first(&self, key: KeyHash, ticket: Ticket, waker: &Waker) -> bool {
        let mut lines = self.lines.lock();
        let Some(line) = lines.by_key.get_mut(&key) else { return true };
        if let Some(waiter) = line.waiters.iter_mut().find(|waiter| waiter.ticket == ticket) {
            match &mut waiter.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
        line.waiters.front().is_none_or(|first| first.ticket == ticket)
    }

    /// Leaves the line. Out of turn, everybody behind moves up, and what was foretold is void.
    pub(crate) fn leave(&self, key: KeyHash, ticket: Ticket, in_turn: bool) {
        let next = {
            let mut lines = self.lines.lock();
            let Some(line) = lines.by_key.get_mut(&key) else { return };
            let Some(place) = line.waiters.iter().position(|waiter| waiter.ticket == ticket) else { return };
            line.waiters.remove(place);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if !in_turn {
                line.end = None;
            }
            let next = if place == 0 { line.waiters.front().and_then(|first| first.waker.clone()) } else { None };
            if line.waiters.is_empty() {
                lines.by_key.remove(&key);
            }
            next
        };
        if let Some(waker) = next {
            waker.wake();
        }
    }

    /// Something was given back: the first in line may go sooner than foretold.
    #[inline]
    pub(crate) fn wake(&self, key: KeyHash) {
        if self.is_occupied() {
            let first = self.lines.lock().by_key.get_mut(&key).and_then(Line::reconsider);
            first.into_iter().for_each(Waker::wake);
        }
    }

    /// The limits have changed: whatever was foretold is void.
    pub(crate) fn disturb(&self) {
        let first: Vec<Waker> = self.lines.lock().by_key.values_mut().filter_map(Line::reconsider).collect();
        first.into_iter().for_each(Waker::wake);
    }
}
