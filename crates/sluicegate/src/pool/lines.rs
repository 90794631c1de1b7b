//! Who is inside, who waits, and who is next.
//!
//! Everything happens under one lock, and after every change whoever may go in is given its place right
//! there: a place is never free while somebody who may have it waits. A caller finds its place when it
//! is polled next; one that has gone away instead gives it back, and the place is given to another. So
//! no wake-up can be lost with a caller who does not want it any more.
//!
//! Wakers are foreign code: those to be called and to be dropped are put into [`Afterwards`].

use std::cmp::Reverse;
use std::collections::HashMap;
use std::task::Waker;
use std::time::Duration;

use super::line::{Granted, Line, Ticket, Waiter};
use super::places::{Places, Share};
use super::refusal::Cause;
use super::status::Counts;
use crate::Timestamp;

/// Foreign code to be run once the lock is free.
#[derive(Default)]
pub(super) struct Afterwards {
    wake: Vec<Waker>,
    forget: Vec<Waker>,
}

impl Afterwards {
    /// Must be called without the lock.
    pub(super) fn run(self) {
        self.wake.into_iter().for_each(Waker::wake);
        drop(self.forget);
    }
}

/// How a caller stands.
pub(super) enum Standing {
    /// Inside.
    In(Granted),
    /// In line; to be polled again at this moment if not woken before.
    Waits(Ticket, Timestamp),
    /// Not let in, while its class stood so.
    Refused(Cause, Share),
}

/// All lines before one bulkhead.
pub(super) struct Lines {
    places: Places,
    lines: Vec<Line>,
    /// Places given to callers who have not been polled since.
    granted: HashMap<Ticket, Granted>,
    tickets: u64,
    waiting: usize,
}

impl Lines {
    pub(super) fn new(places: Places, lines: Vec<Line>) -> Self {
        Self { places, lines, granted: HashMap::new(), tickets: 0, waiting: 0 }
    }

    /// All places, and those in use.
    pub(super) fn total_and_used(&self) -> (usize, usize) {
        (self.places.total(), (0..self.lines.len()).map(|class| self.places.share(class).used).sum())
    }

    /// What a class uses, how many wait, and how its callers have fared.
    pub(super) fn class(&self, class: usize) -> (Share, usize, Counts) {
        let line = &self.lines[class];
        (self.places.share(class), line.waiters.len(), line.counts)
    }

    /// A caller comes: it is let in, joins the line, or is refused.
    pub(super) fn arrive(
        &mut self,
        class: usize,
        now: Timestamp,
        deadline: Timestamp,
        after: &mut Afterwards,
    ) -> Standing {
        if self.waiting == 0
            && self.places.may_enter(class)
            && let Some(granted) = self.lines[class].ask(now)
        {
            self.places.take(class);
            return self.let_in(class, granted);
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let line = &mut self.lines[class];
        line.waiters.push_back(Waiter { ticket, deadline, waker: None, told: None });
        self.waiting += 1;
        let standing = self.stand(class, ticket, now, after);
        let line = &self.lines[class];
        if let Standing::Waits(..) = standing
            && line.waiters.len() > line.max_waiting
        {
            let waiting = line.waiters.len() - 1;
            self.remove(class, ticket, after);
            return self.refuse(class, Cause::LineFull { waiting });
        }
        standing
    }

    /// A caller in line looks again. `waker` is what wakes it from now on.
    pub(super) fn look(
        &mut self,
        class: usize,
        ticket: Ticket,
        now: Timestamp,
        waker: &Waker,
        after: &mut Afterwards,
    ) -> Standing {
        let standing = self.stand(class, ticket, now, after);
        let line = &mut self.lines[class];
        if let Standing::Waits(..) = standing
            && let Some(position) = line.position(ticket)
        {
            match &mut line.waiters[position].waker {
                Some(known) if known.will_wake(waker) => {}
                known => after.forget.extend(known.replace(waker.clone())),
            }
        }
        standing
    }

    fn stand(&mut self, class: usize, ticket: Ticket, now: Timestamp, after: &mut Afterwards) -> Standing {
        self.dispatch(now, after);
        if let Some(granted) = self.granted.remove(&ticket) {
            return self.let_in(class, granted);
        }
        let may_enter = self.places.may_enter(class);
        let line = &mut self.lines[class];
        let cause = match line.held_up {
            Some(until) if may_enter => Cause::Limit { retry_after: until.map(|until| until - now) },
            _ => Cause::NoPlace,
        };
        // Who is not in line any more was sent away because its time was up.
        let Some(position) = line.position(ticket) else { return self.refuse(class, cause) };
        let waiter = &mut line.waiters[position];
        waiter.told = line.held_up.filter(|_| position == 0 && may_enter);
        let mut again = waiter.deadline;
        let mut hopeless = now >= again;
        if let Some(Some(until)) = waiter.told {
            // The first in line can tell whether its turn comes in time.
            hopeless |= until > again;
            again = again.min(until);
        }
        if hopeless {
            self.remove(class, ticket, after);
            self.dispatch(now, after);
            return self.refuse(class, cause);
        }
        Standing::Waits(ticket, again)
    }

    /// A caller goes away, in line or with a place it has not seen yet.
    pub(super) fn leave(&mut self, class: usize, ticket: Ticket, now: Timestamp, after: &mut Afterwards) {
        if let Some(Granted(pass)) = self.granted.remove(&ticket) {
            self.places.give(class);
            if let Some(pass) = pass {
                pass.give_back();
            }
        } else {
            self.remove(class, ticket, after);
        }
        self.lines[class].counts.gone += 1;
        self.dispatch(now, after);
    }

    /// Somebody inside has left.
    pub(super) fn give(&mut self, class: usize, now: Timestamp, after: &mut Afterwards) {
        self.places.give(class);
        self.dispatch(now, after);
    }

    /// For how long a caller was in line.
    pub(super) fn note_wait(&mut self, class: usize, waited: Duration) {
        self.lines[class].note_wait(waited);
    }

    /// Gives places to whoever may have them.
    fn dispatch(&mut self, now: Timestamp, after: &mut Afterwards) {
        if self.waiting == 0 {
            return;
        }
        self.lines.iter_mut().for_each(|line| line.held_up = None);
        while let Some(class) = self.next(now, after) {
            let line = &mut self.lines[class];
            match line.ask(now) {
                Some(granted) => {
                    let Some(waiter) = line.waiters.pop_front() else { return };
                    self.waiting -= 1;
                    self.places.take(class);
                    self.granted.insert(waiter.ticket, granted);
                    after.wake.extend(waiter.waker);
                }
                None => {
                    let held_up = line.held_up;
                    // It waits for the clock now, and does not know it yet.
                    if let Some(first) = line.waiters.front_mut()
                        && first.told != held_up
                    {
                        first.told = held_up;
                        after.wake.extend(first.waker.clone());
                    }
                }
            }
        }
    }

    /// The class whose first in line is to be let in before all others, if any may.
    fn next(&mut self, now: Timestamp, after: &mut Afterwards) -> Option<usize> {
        let mut next = None;
        for (class, line) in self.lines.iter_mut().enumerate() {
            while let Some(late) = line.waiters.pop_front_if(|first| first.deadline < now) {
                self.waiting -= 1;
                after.wake.extend(late.waker);
            }
            if let Some(first) = line.waiters.front()
                && line.held_up.is_none()
                && self.places.may_enter(class)
            {
                next = next.max(Some((line.importance, Reverse(first.ticket), class)));
            }
        }
        next.map(|(_, _, class)| class)
    }

    fn remove(&mut self, class: usize, ticket: Ticket, after: &mut Afterwards) {
        let line = &mut self.lines[class];
        if let Some(gone) = line.position(ticket).and_then(|position| line.waiters.remove(position)) {
            self.waiting -= 1;
            after.forget.extend(gone.waker);
        }
    }

    fn let_in(&mut self, class: usize, granted: Granted) -> Standing {
        self.lines[class].counts.entered += 1;
        Standing::In(granted)
    }

    fn refuse(&mut self, class: usize, cause: Cause) -> Standing {
        let counts = &mut self.lines[class].counts;
        match cause {
            Cause::NoPlace => counts.no_place += 1,
            Cause::LineFull { .. } => counts.line_full += 1,
            Cause::Limit { .. } => counts.over_limit += 1,
        }
        Standing::Refused(cause, self.places.share(class))
    }
}
