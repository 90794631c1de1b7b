//! Bans: shutting out a key that keeps running into its limits.
//!
//! A rule's ban book counts refusals per key in a table of its own, like any other state of a key.
//! When there are enough of them within the time set, the key is banned for the time set; refusals
//! while banned do not prolong it. Unlike a limit, a ban that must be forgotten for lack of room is
//! not passed on to strangers: too lax for one beats shutting out many.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::snapshot::worth_resizing;
use super::{RuleSetError, in_rule};
use crate::algorithm::{Algorithm, Alignment, FixedWindow};
use crate::clock::ClockHandle;
use crate::fleet::FleetKey;
use crate::limit::Limit;
use crate::limiter::{Builder, Inner, RestoreError, SavedState};
use crate::rule::{Ban, Rule};
use crate::table::KeyHash;
use crate::time::{Timestamp, saturating_nanos};

/// How many bans are remembered by their keys, for people and for the fleet.
const LISTED: usize = 16_384;

/// One rule's bans.
pub(super) struct BanBook {
    ban: Ban,
    refusals: FixedWindow,
    term: FixedWindow,
    states: Arc<Inner>,
    listed: Mutex<HashMap<FleetKey, Listed>>,
    /// What other processes have not been told yet, if there are any.
    news: Option<Mutex<Vec<BanNews>>>,
}

/// A ban that is known by its key.
struct Listed {
    name: String,
    hash: KeyHash,
    until: Timestamp,
}

/// A key that people and other processes can be told.
pub(super) struct NamedKey {
    /// The key, readable.
    pub(super) name: String,
    pub(super) key: FleetKey,
}

/// A ban pronounced or lifted, for the other processes of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanNews {
    /// The rule.
    pub rule: String,
    /// The key, readable.
    pub name: String,
    /// The key, as every process writes it.
    pub key: FleetKey,
    /// How much longer the ban lasts; `None`: it was lifted.
    pub remaining: Option<Duration>,
}

/// A ban in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banned {
    /// The rule that pronounced it.
    pub rule: String,
    /// The key, readable.
    pub key: String,
    /// How much longer it lasts.
    pub remaining: Duration,
}

impl BanBook {
    /// Refuses bans that could not work.
    pub(super) fn check(rule: &Rule) -> Result<(), RuleSetError> {
        match rule.ban {
            Some(ban) => windows(ban).map(drop).ok_or_else(|| RuleSetError::Ban { rule: rule.name.clone() }),
            None => Ok(()),
        }
    }

    pub(super) fn new(rule: &Rule, ban: Ban, builder: Builder, buckets: usize) -> Result<Self, RuleSetError> {
        let (refusals, term) = windows(ban).ok_or_else(|| RuleSetError::Ban { rule: rule.name.clone() })?;
        let limits = [Limit::FixedWindow(refusals), Limit::FixedWindow(term)];
        let states = builder.limits(limits).lenient().build_keyed_inner(buckets).map_err(in_rule(rule))?;
        Ok(Self { ban, refusals, term, states, listed: Mutex::default(), news: None })
    }

    /// The same book, which tells the fleet.
    pub(super) fn telling(mut self) -> Self {
        self.news = Some(Mutex::default());
        self
    }

    /// Words of state that a key of such a book takes.
    pub(super) fn words(ban: Ban) -> Option<usize> {
        let (refusals, term) = windows(ban)?;
        Some(refusals.words() + term.words())
    }

    /// Changes how many keys it remembers, where that is worth it.
    pub(super) fn resize(&self, buckets: usize) {
        if worth_resizing(self.states.buckets(), buckets) {
            let limits = vec![Limit::FixedWindow(self.refusals), Limit::FixedWindow(self.term)];
            // Without memory for another table the present one goes on.
            let _ = self.states.rebuild(limits, false, buckets);
        }
    }

    /// How much longer the key is banned.
    pub(super) fn remaining(&self, key: KeyHash, now: Timestamp) -> Option<Duration> {
        let mut remaining = None;
        self.states.visit(key, now, &mut |_, state| {
            let (_, term) = state.split_at(self.refusals.words());
            remaining = self.in_term(term, now);
            false
        });
        remaining
    }

    fn in_term(&self, term: &[u64], now: Timestamp) -> Option<Duration> {
        let status = self.term.status(&term[..self.term.words()], now);
        (status.remaining == 0).then(|| Duration::from_nanos(status.reset))
    }

    /// Counts a refusal. Answers whether it led to a ban.
    pub(super) fn refused(&self, key: KeyHash, now: Timestamp) -> bool {
        let mut banned = false;
        self.states.visit(key, now, &mut |_, state| {
            let (refusals, term) = state.split_at_mut(self.refusals.words());
            let term = &mut term[..self.term.words()];
            if self.in_term(term, now).is_some() {
                return false;
            }
            self.refusals.commit(refusals, now, 1, false);
            if self.refusals.status(refusals, now).remaining == 0 {
                refusals.fill(0);
                self.term.commit(term, now, 1, false);
                banned = true;
            }
            true
        });
        banned
    }

    /// Bans a key for some time, the book's own at most and unless told otherwise, and tells the fleet. Answers how
    /// long the key is banned now: a ban that lasts longer stays.
    pub(super) fn pronounce(
        &self,
        rule: &str,
        named: NamedKey,
        hash: KeyHash,
        lasting: Option<Duration>,
        now: Timestamp,
    ) -> Duration {
        let NamedKey { name, key } = named;
        let remaining = Some(lasting.unwrap_or(self.ban.lasting).min(self.ban.lasting));
        let news = BanNews { rule: rule.to_owned(), name, key, remaining };
        if self.hear(&news, hash, now) {
            self.tell(news);
        }
        self.remaining(hash, now).unwrap_or_default()
    }

    /// Remembers who was banned just now, and tells the fleet.
    pub(super) fn note(&self, rule: &str, named: NamedKey, hash: KeyHash, now: Timestamp) {
        let NamedKey { name, key } = named;
        let news = BanNews { rule: rule.to_owned(), name, key, remaining: Some(self.ban.lasting) };
        self.enlist(&news, hash, now + self.ban.lasting, now);
        self.tell(news);
    }

    fn enlist(&self, news: &BanNews, hash: KeyHash, until: Timestamp, now: Timestamp) {
        let mut listed = self.listed.lock();
        if listed.len() >= LISTED {
            listed.retain(|_, ban| ban.until > now);
        }
        if listed.len() < LISTED {
            listed.insert(news.key.clone(), Listed { name: news.name.clone(), hash, until });
        }
    }

    fn tell(&self, news: BanNews) {
        if let Some(untold) = &self.news {
            let mut untold = untold.lock();
            if untold.len() < LISTED {
                untold.push(news);
            }
        }
    }

    /// What the fleet has not been told yet.
    pub(super) fn take_news(&self) -> Vec<BanNews> {
        self.news.as_ref().map(|untold| std::mem::take(&mut *untold.lock())).unwrap_or_default()
    }

    /// All bans in force that the fleet should know of.
    pub(super) fn all_news(&self, rule: &str, now: Timestamp) -> Vec<BanNews> {
        if self.news.is_none() {
            return Vec::new();
        }
        let listed = self.listed.lock();
        let news = listed.iter().filter_map(|(key, ban)| {
            let remaining = Some(self.remaining(ban.hash, now)?);
            Some(BanNews { rule: rule.to_owned(), name: ban.name.clone(), key: key.clone(), remaining })
        });
        news.collect()
    }

    /// Takes up what another process has done. A ban here that lasts longer stays. Answers whether anything has
    /// changed.
    pub(super) fn hear(&self, news: &BanNews, hash: KeyHash, now: Timestamp) -> bool {
        let Some(remaining) = news.remaining else {
            self.listed.lock().remove(&news.key);
            self.states.forget(hash);
            return true;
        };
        let remaining = remaining.min(self.ban.lasting);
        if self.remaining(hash, now).is_some_and(|present| present >= remaining) || remaining.is_zero() {
            return false;
        }
        // As if it had been pronounced here, so long ago.
        let ago = saturating_nanos(self.ban.lasting - remaining);
        let then = Timestamp::from_nanos(now.as_nanos().saturating_sub(ago));
        self.states.visit(hash, now, &mut |_, state| {
            let (refusals, term) = state.split_at_mut(self.refusals.words());
            refusals.fill(0);
            let term = &mut term[..self.term.words()];
            term.fill(0);
            self.term.commit(term, then, 1, false);
            true
        });
        self.enlist(news, hash, now + remaining, now);
        true
    }

    pub(super) fn list(&self, rule: &str, now: Timestamp) -> Vec<Banned> {
        let listed = self.listed.lock();
        let mut bans: Vec<Banned> = listed
            .values()
            .filter_map(|ban| {
                let remaining = self.remaining(ban.hash, now)?;
                Some(Banned { rule: rule.to_owned(), key: ban.name.clone(), remaining })
            })
            .collect();
        bans.sort_by(|a, b| a.key.cmp(&b.key));
        bans
    }

    /// Lifts the bans of this readable key. Answers whether there was one.
    pub(super) fn lift(&self, rule: &str, name: &str) -> bool {
        let lifted: Vec<(FleetKey, Listed)> = self.listed.lock().extract_if(|_, ban| ban.name == name).collect();
        for (key, ban) in &lifted {
            self.states.forget(ban.hash);
            self.tell(BanNews { rule: rule.to_owned(), name: ban.name.clone(), key: key.clone(), remaining: None });
        }
        !lifted.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.states.bytes()
    }

    pub(super) fn save(&self) -> SavedState {
        self.states.save()
    }

    /// The same book with saved bans in it. Keys are known by their hashes only, so such bans hold but
    /// are not listed.
    pub(super) fn restored(&self, saved: &SavedState, clock: &ClockHandle) -> Result<Arc<Self>, RestoreError> {
        let limits = [Limit::FixedWindow(self.refusals), Limit::FixedWindow(self.term)];
        let builder = Builder::default().limits(limits).clock(clock.clone()).lenient();
        let states = builder.restore_inner(saved, self.states.buckets())?;
        let Self { ban, refusals, term, .. } = *self;
        let news = self.news.as_ref().map(|_| Mutex::default());
        Ok(Arc::new(Self { ban, refusals, term, states, listed: Mutex::default(), news }))
    }
}

/// The counters a ban is kept with: refusals within their time, and the term itself.
fn windows(ban: Ban) -> Option<(FixedWindow, FixedWindow)> {
    let refusals = FixedWindow::new(u64::from(ban.after), ban.within, Alignment::FirstUse).ok()?;
    let term = FixedWindow::new(1, ban.lasting, Alignment::FirstUse).ok()?;
    Some((refusals, term))
}
