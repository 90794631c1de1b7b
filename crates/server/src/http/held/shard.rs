//! A part of what is held, by id and by when its time is up.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use sluicegate_engine::{Outcome, Timestamp};

use super::{Id, Kind};

/// One thing that is held.
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) outcome: Outcome,
    /// For how long it is held, from when that was last said.
    pub(super) ttl: Duration,
    pub(super) until: Timestamp,
}

#[derive(Default)]
pub(super) struct Shard {
    entries: HashMap<Id, Entry>,
    /// The same, soonest first.
    due: BTreeSet<(Timestamp, Id)>,
}

impl Shard {
    pub(super) fn insert(&mut self, id: Id, entry: Entry) {
        self.due.insert((entry.until, id));
        self.entries.insert(id, entry);
    }

    pub(super) fn get(&self, id: Id) -> Option<&Entry> {
        self.entries.get(&id)
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.due.remove(&(entry.until, id));
        Some(entry)
    }

    /// Holds it for `ttl` from `now` on.
    pub(super) fn renew(&mut self, id: Id, ttl: Duration, now: Timestamp) -> Option<Timestamp> {
        let entry = self.entries.get_mut(&id)?;
        self.due.remove(&(entry.until, id));
        (entry.ttl, entry.until) = (ttl, now + ttl);
        self.due.insert((entry.until, id));
        Some(entry.until)
    }

    /// When the next one's time is up.
    pub(super) fn soonest(&self) -> Option<Timestamp> {
        self.due.first().map(|(until, _)| *until)
    }

    /// Takes out up to `most` whose time is up.
    pub(super) fn expired(&mut self, now: Timestamp, most: usize) -> Vec<Entry> {
        let mut expired = Vec::new();
        while let Some(&(until, id)) = self.due.first()
            && until <= now
            && expired.len() < most
        {
            self.due.pop_first();
            expired.extend(self.entries.remove(&id));
        }
        expired
    }
}
