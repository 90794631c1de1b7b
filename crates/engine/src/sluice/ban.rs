//! Bans: refuse a key for some time after repeated refusals.
//!
//! Each rule's ban table counts refusals per key in its own key table. A key with enough refusals within the
//! configured time is banned for the configured duration; refusals during the ban do not extend it. A ban that
//! is evicted for lack of memory is not inherited by other keys, unlike the state of a limit: being too lenient
//! with one key is better than refusing many.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::snapshot::should_resize;
use super::{RuleSetError, in_rule};
use crate::algorithm::{Algorithm, Alignment, FixedWindow};
use crate::clock::ClockHandle;
use crate::limit::Limit;
use crate::limiter::{Builder, LimiterCore, RestoreError, SavedState};
use crate::rule::{Ban, Rule};
use crate::store::CanonicalKey;
use crate::table::KeyHash;
use crate::time::{Timestamp, saturating_nanos};

/// Maximum number of bans listed with their keys, for operators and for the cluster.
const MAX_LISTED_BANS: usize = 16_384;

/// Ban table of one rule.
pub(super) struct BanTable {
    ban: Ban,
    refusals: FixedWindow,
    term: FixedWindow,
    states: Arc<LimiterCore>,
    listed: Mutex<HashMap<CanonicalKey, ListedBan>>,
    /// Events not yet sent to other processes; `None` for local rules.
    events: Option<Mutex<Vec<BanEvent>>>,
}

/// Ban with a known key.
struct ListedBan {
    name: String,
    hash: KeyHash,
    until: Timestamp,
}

/// Key in readable and canonical form, for operators and other processes.
pub(super) struct KeyName {
    /// Readable key.
    pub(super) name: String,
    pub(super) key: CanonicalKey,
}

/// Ban imposed or lifted, for the other processes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BanEvent {
    /// Name of the rule.
    pub rule: String,
    /// Readable key.
    pub name: String,
    /// Canonical key, the same in every process.
    pub key: CanonicalKey,
    /// Remaining duration of the ban; `None`: it was lifted.
    pub remaining: Option<Duration>,
}

/// Active ban.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActiveBan {
    /// Rule that imposed it.
    pub rule: String,
    /// Readable key.
    pub key: String,
    /// Remaining duration.
    pub remaining: Duration,
}

impl BanTable {
    /// Rejects invalid ban settings.
    pub(super) fn check(rule: &Rule) -> Result<(), RuleSetError> {
        match rule.ban {
            Some(ban) => windows(ban).map(drop).ok_or_else(|| RuleSetError::Ban { rule: rule.name.clone() }),
            None => Ok(()),
        }
    }

    pub(super) fn new(rule: &Rule, ban: Ban, builder: Builder, buckets: usize) -> Result<Self, RuleSetError> {
        let (refusals, term) = windows(ban).ok_or_else(|| RuleSetError::Ban { rule: rule.name.clone() })?;
        let limits = [Limit::FixedWindow(refusals), Limit::FixedWindow(term)];
        let states = builder.limits(limits).drop_evicted().build_keyed_core(buckets).map_err(in_rule(rule))?;
        Ok(Self { ban, refusals, term, states, listed: Mutex::default(), events: None })
    }

    /// Returns the table with event recording for the cluster enabled.
    pub(super) fn with_events(mut self) -> Self {
        self.events = Some(Mutex::default());
        self
    }

    /// Words of state per key.
    pub(super) fn words(ban: Ban) -> Option<usize> {
        let (refusals, term) = windows(ban)?;
        Some(refusals.words() + term.words())
    }

    /// Changes the number of keys if the difference is large enough.
    pub(super) fn resize(&self, buckets: usize) {
        if should_resize(self.states.buckets(), buckets) {
            let limits = vec![Limit::FixedWindow(self.refusals), Limit::FixedWindow(self.term)];
            // If memory for another table is lacking, the current one stays.
            let _ = self.states.rebuild(limits, false, buckets);
        }
    }

    /// Remaining duration of the key's ban.
    pub(super) fn remaining(&self, key: KeyHash, now: Timestamp) -> Option<Duration> {
        let mut remaining = None;
        self.states.with_state(key, now, &mut |_, state| {
            let (_, term) = state.split_at(self.refusals.words());
            remaining = self.remaining_term(term, now);
            false
        });
        remaining
    }

    fn remaining_term(&self, term: &[u64], now: Timestamp) -> Option<Duration> {
        let status = self.term.status(&term[..self.term.words()], now);
        (status.remaining == 0).then(|| Duration::from_nanos(status.reset))
    }

    /// Counts a refusal. Returns true if it caused a ban.
    pub(super) fn record_refusal(&self, key: KeyHash, now: Timestamp) -> bool {
        let mut banned = false;
        self.states.with_state(key, now, &mut |_, state| {
            let (refusals, term) = state.split_at_mut(self.refusals.words());
            let term = &mut term[..self.term.words()];
            if self.remaining_term(term, now).is_some() {
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

    /// Bans a key, at most for the configured duration, which is also the default, and records an event for the
    /// cluster. Returns the remaining duration: an active ban that lasts longer stays.
    pub(super) fn impose(
        &self,
        rule: &str,
        key_name: KeyName,
        hash: KeyHash,
        lasting: Option<Duration>,
        now: Timestamp,
    ) -> Duration {
        let KeyName { name, key } = key_name;
        let remaining = Some(lasting.unwrap_or(self.ban.duration).min(self.ban.duration));
        let event = BanEvent { rule: rule.to_owned(), name, key, remaining };
        if self.apply_event(&event, hash, now) {
            self.push_event(event);
        }
        self.remaining(hash, now).unwrap_or_default()
    }

    /// Lists a ban that was just imposed and records an event for the cluster.
    pub(super) fn record(&self, rule: &str, key_name: KeyName, hash: KeyHash, now: Timestamp) {
        let KeyName { name, key } = key_name;
        let event = BanEvent { rule: rule.to_owned(), name, key, remaining: Some(self.ban.duration) };
        self.insert_listed(&event, hash, now + self.ban.duration, now);
        self.push_event(event);
    }

    fn insert_listed(&self, event: &BanEvent, hash: KeyHash, until: Timestamp, now: Timestamp) {
        let mut listed = self.listed.lock();
        if listed.len() >= MAX_LISTED_BANS {
            listed.retain(|_, ban| ban.until > now);
        }
        if listed.len() < MAX_LISTED_BANS {
            listed.insert(event.key.clone(), ListedBan { name: event.name.clone(), hash, until });
        }
    }

    fn push_event(&self, event: BanEvent) {
        if let Some(events) = &self.events {
            let mut events = events.lock();
            if events.len() < MAX_LISTED_BANS {
                events.push(event);
            }
        }
    }

    /// Drains the events not yet sent to the cluster.
    pub(super) fn drain_events(&self) -> Vec<BanEvent> {
        self.events.as_ref().map(|events| std::mem::take(&mut *events.lock())).unwrap_or_default()
    }

    /// Events for all active bans that the cluster should know.
    pub(super) fn active_events(&self, rule: &str, now: Timestamp) -> Vec<BanEvent> {
        if self.events.is_none() {
            return Vec::new();
        }
        let listed = self.listed.lock();
        let events = listed.iter().filter_map(|(key, ban)| {
            let remaining = Some(self.remaining(ban.hash, now)?);
            Some(BanEvent { rule: rule.to_owned(), name: ban.name.clone(), key: key.clone(), remaining })
        });
        events.collect()
    }

    /// Applies an event of another process. A local ban that lasts longer stays. Returns true if anything changed.
    pub(super) fn apply_event(&self, event: &BanEvent, hash: KeyHash, now: Timestamp) -> bool {
        let Some(remaining) = event.remaining else {
            self.listed.lock().remove(&event.key);
            self.states.reset(hash);
            return true;
        };
        let remaining = remaining.min(self.ban.duration);
        if self.remaining(hash, now).is_some_and(|present| present >= remaining) || remaining.is_zero() {
            return false;
        }
        // As if the ban had been imposed here at that earlier time.
        let elapsed = saturating_nanos(self.ban.duration - remaining);
        let then = Timestamp::from_nanos(now.as_nanos().saturating_sub(elapsed));
        self.states.with_state(hash, now, &mut |_, state| {
            let (refusals, term) = state.split_at_mut(self.refusals.words());
            refusals.fill(0);
            let term = &mut term[..self.term.words()];
            term.fill(0);
            self.term.commit(term, then, 1, false);
            true
        });
        self.insert_listed(event, hash, now + remaining, now);
        true
    }

    pub(super) fn list(&self, rule: &str, now: Timestamp) -> Vec<ActiveBan> {
        let listed = self.listed.lock();
        let mut bans: Vec<ActiveBan> = listed
            .values()
            .filter_map(|ban| {
                let remaining = self.remaining(ban.hash, now)?;
                Some(ActiveBan { rule: rule.to_owned(), key: ban.name.clone(), remaining })
            })
            .collect();
        bans.sort_by(|a, b| a.key.cmp(&b.key));
        bans
    }

    /// Lifts the bans of this readable key. Returns true if there was one.
    pub(super) fn lift(&self, rule: &str, name: &str) -> bool {
        let lifted: Vec<(CanonicalKey, ListedBan)> = self.listed.lock().extract_if(|_, ban| ban.name == name).collect();
        for (key, ban) in &lifted {
            self.states.reset(ban.hash);
            self.push_event(BanEvent {
                rule: rule.to_owned(),
                name: ban.name.clone(),
                key: key.clone(),
                remaining: None,
            });
        }
        !lifted.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.states.bytes()
    }

    pub(super) fn save(&self) -> SavedState {
        self.states.save()
    }

    /// Returns the table with restored bans. Saved state has only key hashes, so these bans are enforced but not
    /// listed.
    pub(super) fn restored(&self, saved: &SavedState, clock: &ClockHandle) -> Result<Arc<Self>, RestoreError> {
        let limits = [Limit::FixedWindow(self.refusals), Limit::FixedWindow(self.term)];
        let builder = Builder::default().limits(limits).clock(clock.clone()).drop_evicted();
        let states = builder.restore_core(saved, self.states.buckets())?;
        let Self { ban, refusals, term, .. } = *self;
        let events = self.events.as_ref().map(|_| Mutex::default());
        Ok(Arc::new(Self { ban, refusals, term, states, listed: Mutex::default(), events }))
    }
}

/// Windows of a ban: one counts refusals, the other is the duration of the ban.
fn windows(ban: Ban) -> Option<(FixedWindow, FixedWindow)> {
    let refusals = FixedWindow::new(u64::from(ban.after), ban.within, Alignment::FirstUse).ok()?;
    let term = FixedWindow::new(1, ban.duration, Alignment::FirstUse).ok()?;
    Some((refusals, term))
}
