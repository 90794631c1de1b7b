//! The wait room: who waits for which key, in which order.
//!
//! Only the first in line asks the limiter; the others sleep. Whoever leaves wakes the next. The line
//! remembers what the state will be once everybody in it has left, so a newcomer is told its turn
//! without asking everybody before it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    per_key: AtomicUsize,
    total: usize,
    /// Callers in all lines; lets those who do not wait pass without taking the lock.
    waiting: AtomicUsize,
    /// Wakers of callers who wait elsewhere but need something that is held here.
    watching: AtomicUsize,
    lines: Mutex<Lines>,
}

#[derive(Default)]
struct Lines {
    by_key: HashMap<KeyHash, Line>,
    watchers: Vec<(KeyHash, Watcher, Waker)>,
    tickets: u64,
}

#[derive(Default)]
struct Line {
    waiters: VecDeque<Waiter>,
    /// What is foretold. `None` when nothing is.
    end: Option<End>,
}

/// What is foretold of a line.
struct End {
    /// The plan it was foretold by.
    plan: u64,
    /// The state after everybody has left.
    state: Vec<u64>,
    /// When the last one does.
    at: Timestamp,
}

struct Waiter {
    ticket: Ticket,
    cost: u64,
    /// When its turn was foretold to come.
    turn: Option<Timestamp>,
    waker: Option<Waker>,
}

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// Somebody who waits elsewhere. Futures of one task share its waker, so a waker does not tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watcher(u64);

impl Watcher {
    /// One that nobody else is.
    pub(crate) fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        Self(MADE.fetch_add(1, Ordering::Relaxed))
    }
}

/// Who wants to join a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    pub(crate) cost: u64,
    /// Its turn must have come by then.
    pub(crate) deadline: Timestamp,
    /// Whether it joins a line that is as long as it may be.
    pub(crate) even_if_full: bool,
}

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
        if let Some(end) = &self.end
            && end.plan == plan.id()
        {
            state.copy_from_slice(&end.state);
            return Some(end.at.max(now));
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
        Self {
            per_key: AtomicUsize::new(bounds.per_key),
            total: bounds.total,
            waiting: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            lines: Mutex::default(),
        }
    }

    /// Changes how many may wait on one key. Those who wait already stay.
    pub(crate) fn set_per_key(&self, callers: usize) {
        self.per_key.store(callers, Ordering::Relaxed);
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

    /// Joins the line of a key, if there is room and its turn comes by its deadline.
    pub(crate) fn join(
        &self,
        key: KeyHash,
        plan: &Plan,
        mut state: Vec<u64>,
        now: Timestamp,
        newcomer: Newcomer,
    ) -> Result<Ticket, CannotJoin> {
        let Newcomer { cost, deadline, even_if_full } = newcomer;
        let mut lines = self.lines.lock();
        if self.waiting() >= self.total && !even_if_full {
            return Err(CannotJoin::Full);
        }
        let line = lines.by_key.get(&key);
        let ahead = line.map_or(0, |line| line.waiters.len());
        if ahead >= self.per_key.load(Ordering::Relaxed) && !even_if_full {
            return Err(CannotJoin::Full);
        }
        let present = state.clone();
        let end = line.map_or(Some(now), |line| line.end(plan, &mut state, now));
        if end.is_none() {
            // Nobody can tell when those ahead will leave, but how many they are counts all the same.
            state = present;
            let waiters = line.iter().flat_map(|line| &line.waiters);
            waiters.for_each(|waiter| plan.fill_line(&mut state, now, waiter.cost));
        }
        if !plan.line_has_room(&state, now, cost) && !even_if_full {
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
        line.waiters.push_back(Waiter { ticket, cost, turn, waker: None });
        line.end = turn.map(|at| End { plan: plan.id(), state, at });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Ok(ticket)
    }

    /// Whether this caller is first in line. If it is not, or has to wait all the same, `waker` is
    /// what wakes it.
    pub(crate) fn is_first(&self, key: KeyHash, ticket: Ticket, waker: &Waker) -> bool {
        // Wakers are foreign code: declared first, the old one is dropped last, without the lock.
        let mut old = None;
        let mut lines = self.lines.lock();
        let Some(line) = lines.by_key.get_mut(&key) else { return true };
        if let Some(waiter) = line.waiters.iter_mut().find(|waiter| waiter.ticket == ticket) {
            match &mut waiter.waker {
                Some(known) if known.will_wake(waker) => {}
                known => old = known.replace(waker.clone()),
            }
        }
        let first = line.waiters.front().is_none_or(|first| first.ticket == ticket);
        drop(lines);
        drop(old);
        first
    }

    /// Leaves the line, let in at a moment or not at all. Unless it is the moment that was foretold, what
    /// was foretold to those behind is void.
    pub(crate) fn leave(&self, key: KeyHash, ticket: Ticket, admitted_at: Option<Timestamp>) {
        let gone;
        let next = {
            let mut lines = self.lines.lock();
            let Some(line) = lines.by_key.get_mut(&key) else { return };
            let Some(place) = line.waiters.iter().position(|waiter| waiter.ticket == ticket) else { return };
            gone = line.waiters.remove(place);
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            if admitted_at.is_none() || gone.as_ref().and_then(|waiter| waiter.turn) != admitted_at {
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

    /// Asks to be woken, once, when something of this key is given back. Answers whether that is news.
    pub(crate) fn watch(&self, key: KeyHash, watcher: Watcher, waker: &Waker) -> bool {
        // Wakers are foreign code: declared first, the old one is dropped last, without the lock.
        let _old;
        let mut lines = self.lines.lock();
        let known = lines.watchers.iter_mut().find(|(watched, who, _)| (*watched, *who) == (key, watcher));
        match known {
            Some((.., known)) if known.will_wake(waker) => return false,
            Some((.., known)) => _old = std::mem::replace(known, waker.clone()),
            None => {
                lines.watchers.push((key, watcher, waker.clone()));
                self.watching.store(lines.watchers.len(), Ordering::Relaxed);
            }
        }
        true
    }

    /// Asks no longer to be woken.
    pub(crate) fn unwatch(&self, key: KeyHash, watcher: Watcher) {
        let gone: Vec<(KeyHash, Watcher, Waker)> = {
            let mut lines = self.lines.lock();
            let gone = lines.watchers.extract_if(.., |(watched, who, _)| (*watched, *who) == (key, watcher));
            let gone = gone.collect();
            self.watching.store(lines.watchers.len(), Ordering::Relaxed);
            gone
        };
        drop(gone);
    }

    /// Something was given back: the first in line may go sooner than foretold.
    #[inline]
    pub(crate) fn wake(&self, key: KeyHash) {
        if self.is_occupied() || self.watching.load(Ordering::Relaxed) > 0 {
            self.wake_those(|line_key| line_key == key);
        }
    }

    /// Whatever was foretold, to anybody, is void.
    pub(crate) fn disturb(&self) {
        self.wake_those(|_| true);
    }

    fn wake_those(&self, concerned: impl Fn(KeyHash) -> bool) {
        let mut wakers = Vec::new();
        {
            let mut lines = self.lines.lock();
            let Lines { by_key, watchers, .. } = &mut *lines;
            let concerned_lines = by_key.iter_mut().filter(|(key, _)| concerned(**key));
            wakers.extend(concerned_lines.filter_map(|(_, line)| line.reconsider()));
            wakers.extend(watchers.extract_if(.., |(key, ..)| concerned(*key)).map(|(.., waker)| waker));
            self.watching.store(watchers.len(), Ordering::Relaxed);
        }
        wakers.into_iter().for_each(Waker::wake);
    }
}
