//! One shard of the reservation store, indexed by id and by expiry.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use sluicegate_engine::{Outcome, Timestamp};

use super::{ReservationId, ReservationKind};

/// One stored reservation or permit.
pub(super) struct ReservationEntry {
    pub(super) kind: ReservationKind,
    pub(super) outcome: Outcome,
    /// Time to live, counted from the last renewal.
    pub(super) ttl: Duration,
    pub(super) expires_at: Timestamp,
}

#[derive(Default)]
pub(super) struct ReservationShard {
    entries: HashMap<ReservationId, ReservationEntry>,
    /// Index by expiry, soonest first.
    by_expiry: BTreeSet<(Timestamp, ReservationId)>,
}

impl ReservationShard {
    pub(super) fn insert(&mut self, id: ReservationId, entry: ReservationEntry) {
        self.by_expiry.insert((entry.expires_at, id));
        self.entries.insert(id, entry);
    }

    pub(super) fn get(&self, id: ReservationId) -> Option<&ReservationEntry> {
        self.entries.get(&id)
    }

    pub(super) fn remove(&mut self, id: ReservationId) -> Option<ReservationEntry> {
        let entry = self.entries.remove(&id)?;
        self.by_expiry.remove(&(entry.expires_at, id));
        Some(entry)
    }

    /// Extends the entry to `ttl` from `now`.
    pub(super) fn renew(&mut self, id: ReservationId, ttl: Duration, now: Timestamp) -> Option<Timestamp> {
        let entry = self.entries.get_mut(&id)?;
        self.by_expiry.remove(&(entry.expires_at, id));
        (entry.ttl, entry.expires_at) = (ttl, now + ttl);
        self.by_expiry.insert((entry.expires_at, id));
        Some(entry.expires_at)
    }

    /// The next expiry.
    pub(super) fn next_expiry(&self) -> Option<Timestamp> {
        self.by_expiry.first().map(|(until, _)| *until)
    }

    /// Removes up to `max` expired entries.
    pub(super) fn take_expired(&mut self, now: Timestamp, max: usize) -> Vec<ReservationEntry> {
        let mut expired = Vec::new();
        while let Some(&(until, id)) = self.by_expiry.first()
            && until <= now
            && expired.len() < max
        {
            self.by_expiry.pop_first();
            expired.extend(self.entries.remove(&id));
        }
        expired
    }
}
