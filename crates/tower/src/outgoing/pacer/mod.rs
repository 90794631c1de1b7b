//! When the next request to one destination may go, by what its answers said. Pure: time is handed in.
//!
//! Two things hold a request back: a moment before which nothing may be sent (`Retry-After`), and
//! ceilings on how many may be sent until a reset (`RateLimit`).
//!
//! Requests are counted from the first one on, so that what an answer says can be compared with what
//! was sent since. The server counted the request it answers, and those that it answered before. What
//! is in flight it may have counted or not; to be safe, not. What ended without a word about the budget
//! counts like that too, unless it had ended before the answered request was sent. So an answer with
//! `remaining` left puts the ceiling at
//!
//! > those answered + those ended without a word before it was sent + `remaining`
//!
//! and of several ceilings all hold, each until its own reset. An answer that was overtaken by another
//! therefore sets no higher ceiling, and as many requests as there are in flight cannot spend the last one
//! together. If a request that was in flight is answered later with more left than a ceiling was told, the
//! server had counted it before, and that ceiling rises by one: once all are answered it is exact.

mod ceilings;
#[cfg(test)]
mod tests;

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_http::advice::Budget;

use ceilings::{Ceiling, Ceilings, Told};

/// How a budget is spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Freely until nothing is left, and then nothing until the reset.
    #[default]
    Budget,
    /// Evenly over the time until the reset.
    Evenly,
}

/// What a request remembers of the moment it was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    /// Its number; never given twice.
    number: u64,
    /// How many had ended without a word about the budget.
    silent: u64,
    /// When the one before it was sent.
    previous: Timestamp,
    /// When it was sent.
    at: Timestamp,
}

/// What holds the next request back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The server asked not to be called.
    Asked,
    /// The budget is spent, or the next part of it is not due yet.
    Budget,
}

/// The state of one destination.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    pace: Pace,
    /// No word of a server counts for longer than this.
    longest: Duration,
    /// The number of the last request.
    numbered: u64,
    /// Numbered, but for those that never went.
    sent: u64,
    answered: u64,
    silent: u64,
    not_before: Timestamp,
    ceilings: Ceilings,
    /// What is supposed to be there after a reset, until an answer tells.
    supposed: Option<Supposed>,
    /// When the last one was sent.
    last: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct Supposed {
    ceiling: Ceiling,
    /// The number of the last request before it began.
    since: u64,
}

impl Pacer {
    pub(super) const fn new(pace: Pace, longest: Duration) -> Self {
        Self {
            pace,
            longest,
            numbered: 0,
            sent: 0,
            answered: 0,
            silent: 0,
            not_before: Timestamp::ZERO,
            ceilings: Ceilings::new(),
            supposed: None,
            last: Timestamp::ZERO,
        }
    }

    /// Lets a request go, or says until when it is held and by what.
    pub(super) fn send(&mut self, now: Timestamp) -> Result<Mark, (Timestamp, Hold)> {
        let (at, hold) = self.turn(now, 0);
        if at > now {
            return Err((at, hold));
        }
        let previous = self.last;
        self.last = now;
        self.sent += 1;
        self.numbered += 1;
        Ok(Mark { number: self.numbered, silent: self.silent, previous, at: now })
    }

    /// Whether a request that was let go, but is not on its way yet, may still go.
    pub(super) fn may_still_go(&mut self, now: Timestamp) -> bool {
        self.pass_resets(now);
        now >= self.not_before && self.holding(now).all(|ceiling| self.sent <= ceiling.total)
    }

    /// The request was never sent after all.
    pub(super) fn unsend(&mut self, mark: &Mark) {
        self.sent = self.sent.saturating_sub(1);
        self.ceilings.unsend(mark.number);
        if self.last == mark.at {
            self.last = mark.previous;
        }
    }

    /// The request was answered, with a word about the budget or without. Answers whether anything
    /// that holds requests back has changed.
    pub(super) fn answered(&mut self, mark: &Mark, budget: Option<&Budget>, now: Timestamp) -> bool {
        self.pass_resets(now);
        let outdated = self.supposed.take_if(|supposed| mark.number > supposed.since);
        let Some(budget) = budget else {
            self.silent += 1;
            return outdated.is_some();
        };
        self.answered += 1;
        let total = self.answered.saturating_add(mark.silent).saturating_add(budget.remaining);
        let reset = budget.reset.min(self.longest);
        // Beyond what we are willing to wait the server's quota is not ours to assume: one goes to ask.
        let quota =
            if reset < budget.reset { 1 } else { budget.quota.unwrap_or(budget.remaining.saturating_add(1)).max(1) };
        let window = budget.window.unwrap_or(reset).min(self.longest);
        self.ceilings.hear_of(mark.number, budget.remaining);
        let most = self.sent.saturating_add(budget.remaining);
        let told = Told { remaining: budget.remaining, after: self.numbered, most, counted: self.numbered };
        self.ceilings.add(Ceiling { total, until: now + reset, quota, window, told: Some(told) });
        true
    }

    /// The request ended without an answer. Of what is only supposed it takes nothing, lest a server
    /// that is down for a moment not be asked again for a whole window.
    pub(super) fn ended(&mut self) {
        self.silent += 1;
        if let Some(supposed) = &mut self.supposed {
            supposed.ceiling.total = supposed.ceiling.total.saturating_add(1);
        }
    }

    /// Nothing is to be sent for so long. Answers whether that is later than before.
    pub(super) fn hold(&mut self, hold: Duration, jitter: Duration, now: Timestamp) -> bool {
        let until = now + hold.min(self.longest) + jitter;
        let later = until > self.not_before;
        self.not_before = self.not_before.max(until);
        later
    }

    /// When a request with so many before it can go at the earliest, and what holds it until then.
    pub(super) fn turn(&mut self, now: Timestamp, ahead: u64) -> (Timestamp, Hold) {
        self.pass_resets(now);
        let mut turn = (now.max(self.not_before), Hold::Asked);
        let mut not_before = |at: Timestamp| {
            if at > turn.0 {
                turn = (at, Hold::Budget);
            }
        };
        for ceiling in self.holding(now) {
            if self.pace == Pace::Evenly {
                not_before(ceiling.even_turn(self.sent, self.last, ahead));
            }
            if let Some(behind) = ahead.checked_sub(ceiling.left(self.sent)) {
                // So many windows must pass after this one.
                let windows = u32::try_from(behind / ceiling.quota).unwrap_or(u32::MAX);
                not_before(ceiling.until + ceiling.window.saturating_mul(windows));
            }
        }
        turn
    }

    /// What may still be sent, and until when that counts: the ceiling with the least left.
    pub(super) fn left(&self, now: Timestamp) -> Option<(u64, Timestamp)> {
        let left = self.holding(now).map(|ceiling| (ceiling.left(self.sent), ceiling.until));
        left.min_by_key(|(left, until)| (*left, u64::MAX - until.as_nanos()))
    }

    /// Until when nothing is to be sent, if the server asked for that.
    pub(super) fn held_until(&self, now: Timestamp) -> Option<Timestamp> {
        (self.not_before > now).then_some(self.not_before)
    }

    pub(super) const fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.answered).saturating_sub(self.silent)
    }

    /// When everything it was told is over.
    pub(super) fn recovered_at(&self) -> Timestamp {
        let supposed = self.supposed.iter().map(|supposed| supposed.ceiling.until);
        self.ceilings.iter().map(|ceiling| ceiling.until).chain(supposed).fold(self.not_before, Timestamp::max)
    }

    fn holding(&self, now: Timestamp) -> impl Iterator<Item = &Ceiling> {
        let supposed = self.supposed.iter().map(|supposed| &supposed.ceiling);
        self.ceilings.iter().chain(supposed).filter(move |ceiling| ceiling.until > now)
    }

    /// Drops the ceilings whose reset has come. What is there then nobody has said yet: it is supposed
    /// to be the quota, so that those who waited for the reset do not all go at once.
    fn pass_resets(&mut self, now: Timestamp) {
        let told = self.ceilings.drop_passed(now);
        let supposed = self.supposed.take_if(|supposed| supposed.ceiling.until <= now);
        let Some(passed) = told.or(supposed.map(|supposed| supposed.ceiling)) else { return };
        if self.ceilings.is_empty() && self.supposed.is_none() {
            let total = self.answered.saturating_add(self.silent).saturating_add(passed.quota);
            let ceiling = Ceiling { total, until: passed.reset_after(now), told: None, ..passed };
            self.supposed = Some(Supposed { ceiling, since: self.numbered });
        }
    }
}
