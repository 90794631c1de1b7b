//! All keys of a leased rule on one node.
//!
//! A caller is served from its key's slice under one short lock of the key's shard. Whatever has to be
//! sent, and whoever has to be told, waits until the lock is free again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rapidhash::RapidHashMap;
use sluicegate_engine::Timestamp;
use sluicegate_engine::algorithm::Status;
use sluicegate_engine::clock::ClockHandle;

use super::holder::{Asked, Effects, Holder, Outcome, Slip};
use super::message::{Account, LeaseReply, LeaseRequest, NodeId};
use super::terms::Leasable;
use super::turns::{Held, LeaseCounters, Turns};
use super::waiting::{Ear, Waiting};
use super::wire::Letter;
use crate::keys::StoreKey;

const SHARDS: usize = 64;
/// How many keys are looked at to find one that can make room.
const LOOKED_AT: usize = 32;

/// Carries requests to the store. Each is answered by [`LeaseTable::answered`] or [`LeaseTable::failed`].
pub(crate) trait Messenger: Send + Sync {
    /// Takes a request along; must not wait.
    fn send(&self, parcel: Parcel);
}

/// A request on its way.
#[derive(Clone, Debug)]
pub(crate) struct Parcel {
    /// The key, as the table knows it.
    pub(crate) hash: u64,
    pub(crate) key: StoreKey,
    pub(crate) terms: Arc<Leasable>,
    pub(crate) request: LeaseRequest,
}

impl Parcel {
    /// As the script's call wants it.
    pub(crate) fn letter(&self) -> Letter<'_> {
        Letter { key: &self.key, terms: &self.terms, request: &self.request }
    }
}

/// What a caller is told at once.
#[derive(Debug)]
pub(crate) enum Local {
    /// It has what it wanted, and this is left.
    Taken(Slip, Status),
    /// Not before so many nanoseconds have passed.
    NotBefore(u64, Status),
    /// More than the limits ever give at once.
    Never,
    /// The store is being asked.
    Waiting(Waiting),
    /// Too many wait already.
    Crowded,
}

/// All keys of a leased rule. See the [module's head](self).
pub(crate) struct LeaseTable {
    terms: Arc<Leasable>,
    node: NodeId,
    clock: ClockHandle,
    messenger: Arc<dyn Messenger>,
    counters: Arc<LeaseCounters>,
    epochs: AtomicU64,
    most_keys_per_shard: usize,
    shards: Box<[Mutex<Shard>]>,
}

type Shard = RapidHashMap<u64, Entry>;

struct Entry {
    key: StoreKey,
    holder: Holder<Ear>,
}

impl LeaseTable {
    /// No keys yet, and never more than about `capacity`.
    pub(crate) fn new(
        terms: Leasable,
        node: NodeId,
        capacity: usize,
        clock: ClockHandle,
        messenger: Arc<dyn Messenger>,
        counters: Arc<LeaseCounters>,
    ) -> Self {
        Self {
            terms: Arc::new(terms),
            node,
            clock,
            messenger,
            counters,
            epochs: AtomicU64::new(1),
            most_keys_per_shard: capacity.div_ceil(SHARDS).max(1),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes `cost` for the key with this hash; `key` names it in the store if it is new here. A cost of
    /// zero only looks.
    #[inline]
    pub(crate) fn take(self: &Arc<Self>, hash: u64, cost: u64, key: impl FnOnce() -> StoreKey) -> Local {
        if cost > self.terms.capacity() {
            return Local::Never;
        }
        if cost == 0 {
            return Local::Taken(Slip::nothing(), self.status(hash));
        }
        let now = self.clock.now();
        let mut shard = self.shard(hash).lock();
        let Some(entry) = shard.get_mut(&hash) else {
            drop(shard);
            return self.take_of_new(hash, cost, now, key);
        };
        let Some((slip, request)) = entry.holder.take(cost, now) else {
            let (local, request) = self.ask(hash, entry, cost, now);
            let parcel = request.map(|request| self.parcel(hash, &entry.key, request));
            drop(shard);
            self.send(parcel);
            return local;
        };
        let status = entry.holder.status(&self.terms);
        let parcel = request.map(|request| self.parcel(hash, &entry.key, request));
        drop(shard);
        self.send(parcel);
        Local::Taken(slip, status)
    }

    /// Decides for a key that is known here, if the store need not be asked.
    #[inline]
    pub(crate) fn take_at_once(&self, hash: u64, cost: u64) -> Option<Local> {
        if cost > self.terms.capacity() {
            return Some(Local::Never);
        }
        if cost == 0 {
            return None;
        }
        let now = self.clock.now();
        let mut shard = self.shard(hash).lock();
        let entry = shard.get_mut(&hash)?;
        let Some((slip, request)) = entry.holder.take(cost, now) else {
            let wait = entry.holder.refuse_at_once(cost, now)?;
            return Some(Local::NotBefore(wait, entry.holder.status(&self.terms)));
        };
        let status = entry.holder.status(&self.terms);
        let parcel = request.map(|request| self.parcel(hash, &entry.key, request));
        drop(shard);
        self.send(parcel);
        Some(Local::Taken(slip, status))
    }

    /// The same for a key that is not known here yet.
    #[cold]
    fn take_of_new(self: &Arc<Self>, hash: u64, cost: u64, now: Timestamp, key: impl FnOnce() -> StoreKey) -> Local {
        let mut shard = self.shard(hash).lock();
        let Some((entry, farewell)) = self.entry(&mut shard, hash, now, key) else { return Local::Crowded };
        // Another caller may have brought it in meanwhile, and a slice with it.
        let (local, request) = match entry.holder.take(cost, now) {
            Some((slip, request)) => (Local::Taken(slip, entry.holder.status(&self.terms)), request),
            None => self.ask(hash, entry, cost, now),
        };
        let parcel = request.map(|request| self.parcel(hash, &entry.key, request));
        drop(shard);
        self.send(farewell);
        self.send(parcel);
        local
    }

    /// The key's entry, new if need be. Another one makes room for it if there are too many, and says
    /// goodbye; `None` if none can.
    fn entry<'a>(
        &self,
        shard: &'a mut Shard,
        hash: u64,
        now: Timestamp,
        key: impl FnOnce() -> StoreKey,
    ) -> Option<(&'a mut Entry, Option<Parcel>)> {
        let mut farewell = None;
        if shard.len() >= self.most_keys_per_shard && !shard.contains_key(&hash) {
            let alone = shard.iter().take(LOOKED_AT).filter(|(_, entry)| entry.holder.is_alone());
            let leaving = alone.min_by_key(|(_, entry)| entry.holder.used_at()).map(|(hash, _)| *hash)?;
            let mut entry = shard.remove(&leaving)?;
            farewell = entry.holder.close(now).request.map(|request| self.parcel(leaving, &entry.key, request));
            self.counters.add(entry.holder.turns());
        }
        let entry = shard.entry(hash).or_insert_with(|| {
            let epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
            Entry { key: key(), holder: Holder::new(&self.terms, self.node, epoch, now) }
        });
        Some((entry, farewell))
    }

    fn ask(self: &Arc<Self>, hash: u64, entry: &mut Entry, cost: u64, now: Timestamp) -> (Local, Option<LeaseRequest>) {
        let status = entry.holder.status(&self.terms);
        let mut waiting = None;
        let asked = entry.holder.ask(cost, now, || {
            let (ear, hears) = Waiting::new(self, hash);
            waiting = Some(hears);
            ear
        });
        match (asked, waiting) {
            (Asked::Send(request), Some(waiting)) => (Local::Waiting(waiting), Some(request)),
            (Asked::Waits, Some(waiting)) => (Local::Waiting(waiting), None),
            (Asked::NotBefore(wait), _) => (Local::NotBefore(wait, status), None),
            (Asked::Crowded | Asked::Send(_) | Asked::Waits, _) => (Local::Crowded, None),
        }
    }

    /// The limits.
    pub(crate) const fn terms(&self) -> &Arc<Leasable> {
        &self.terms
    }

    /// What is left of a key's limits, as far as is known here.
    fn status(&self, hash: u64) -> Status {
        let full = Status { limit: self.terms.capacity(), remaining: self.terms.capacity(), reset: 0 };
        self.shard(hash).lock().get(&hash).map_or(full, |entry| entry.holder.status(&self.terms))
    }

    /// Puts back what was taken and not needed, as far as the store has not been told that it was spent.
    pub(crate) fn give_back(&self, hash: u64, slip: Slip) {
        let now = self.clock.now();
        if let Some(entry) = self.shard(hash).lock().get_mut(&hash) {
            entry.holder.give_back(slip, now);
        }
    }

    /// Charges what a request cost beyond what it took, whether there is as much or not; `key` names the key
    /// in the store if it has been forgotten here.
    pub(crate) fn charge(&self, hash: u64, cost: u64, key: impl FnOnce() -> StoreKey) {
        let now = self.clock.now();
        let mut shard = self.shard(hash).lock();
        let Some((entry, farewell)) = self.entry(&mut shard, hash, now, key) else { return };
        entry.holder.charge(cost);
        drop(shard);
        self.send(farewell);
    }

    /// The store has answered the request that said `account` of this key.
    pub(crate) fn answered(&self, hash: u64, account: &Account, reply: &LeaseReply) {
        let now = self.clock.now();
        self.event(hash, |holder| holder.answered(&self.terms, account, reply, now));
    }

    /// The request that said `account` of this key was not answered in time.
    pub(crate) fn failed(&self, hash: u64, account: &Account) {
        let now = self.clock.now();
        self.event(hash, |holder| holder.failed(account, now));
    }

    fn event(&self, hash: u64, event: impl FnOnce(&mut Holder<Ear>) -> Effects<Ear>) {
        let mut shard = self.shard(hash).lock();
        let Some(entry) = shard.get_mut(&hash) else { return };
        let effects = event(&mut entry.holder);
        let status = entry.holder.status(&self.terms);
        let parcel = effects.request.map(|request| self.parcel(hash, &entry.key, request));
        drop(shard);
        self.send(parcel);
        for (ear, outcome) in effects.told {
            self.tell(hash, ear, outcome, status);
        }
    }

    /// Tells a caller; what one that has gone was to have goes back.
    fn tell(&self, hash: u64, ear: Ear, outcome: Outcome, status: Status) {
        if let Some(Outcome::Taken(slip)) = ear.tell(outcome, status) {
            self.give_back(hash, slip);
        }
    }

    /// To be called every fifty milliseconds or so: returns, renews and forgets. Says what is held then.
    pub(crate) fn tick(&self) -> Held {
        let now = self.clock.now();
        let (mut held, mut turns) = (Held::default(), Turns::default());
        for shard in &self.shards {
            let mut parcels = Vec::new();
            shard.lock().retain(|hash, entry| {
                if let Some(request) = entry.holder.tick(now) {
                    parcels.push(self.parcel(*hash, &entry.key, request));
                }
                held += entry.holder.held(now);
                turns += entry.holder.turns();
                !entry.holder.is_idle(now)
            });
            parcels.into_iter().for_each(|parcel| self.messenger.send(parcel));
        }
        self.counters.add(turns);
        held
    }

    /// Gives everything back and forgets all keys. Who waits is told that the store could not be asked.
    pub(crate) fn close(&self) {
        let now = self.clock.now();
        for shard in &self.shards {
            let entries = std::mem::take(&mut *shard.lock());
            for (hash, mut entry) in entries {
                let effects = entry.holder.close(now);
                self.counters.add(entry.holder.turns());
                self.send(effects.request.map(|request| self.parcel(hash, &entry.key, request)));
                let status = entry.holder.status(&self.terms);
                effects.told.into_iter().for_each(|(ear, outcome)| self.tell(hash, ear, outcome, status));
            }
        }
    }

    /// How many keys are known.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    fn parcel(&self, hash: u64, key: &StoreKey, request: LeaseRequest) -> Parcel {
        Parcel { hash, key: key.clone(), terms: Arc::clone(&self.terms), request }
    }

    fn send(&self, parcel: Option<Parcel>) {
        if let Some(parcel) = parcel {
            self.messenger.send(parcel);
        }
    }
}

#[cfg(test)]
mod tests;
