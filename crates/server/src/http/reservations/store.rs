//! The sharded store of reservations and permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::{Outcome, Timestamp};
use tokio::sync::Notify;

use super::shard::{ReservationEntry, ReservationShard};
use super::{ReservationId, ReservationKind};

/// Number of shards: many more than threads, so that lock contention is rare.
const SHARDS: usize = 64;
/// Entries expired per batch before the task yields.
const EXPIRE_BATCH: usize = 64;
/// Timestamp that means no expiry is scheduled.
const NEVER: u64 = u64::MAX;

/// All reservations and permits held for clients.
pub(in crate::http) struct ReservationStore {
    shards: Box<[Mutex<ReservationShard>]>,
    /// Slots in use, including those of pending decisions.
    slots_used: AtomicUsize,
    capacity: usize,
    clock: ClockHandle,
    /// Time of the next scheduled expiry.
    next_expiry: AtomicU64,
    /// Wakes the timer if an entry expires earlier than `next_expiry`.
    timer_wakeup: Notify,
    expired: AtomicU64,
}

/// A reserved slot in the store. Released on drop unless filled.
pub(in crate::http) struct ReservationSlot {
    id: ReservationId,
    store: Arc<ReservationStore>,
    /// Set when an entry occupies the slot; the entry releases it when it ends.
    is_filled: bool,
}

/// Reason a slot cannot be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum SlotError {
    /// The store is full, with this many entries.
    Full(usize),
    /// The system has no randomness for an id.
    NoRandomness,
}

/// Id and time to live of a stored reservation or permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct StoredReservation {
    pub(in crate::http) id: ReservationId,
    pub(in crate::http) ttl: Duration,
}

impl ReservationStore {
    pub(in crate::http) fn new(capacity: usize, clock: ClockHandle) -> Arc<Self> {
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            slots_used: AtomicUsize::new(0),
            capacity,
            clock,
            next_expiry: AtomicU64::new(NEVER),
            timer_wakeup: Notify::new(),
            expired: AtomicU64::new(0),
        })
    }

    /// Reserves a slot for one entry.
    pub(in crate::http) fn reserve_slot(self: &Arc<Self>) -> Result<ReservationSlot, SlotError> {
        let id = ReservationId::random().ok_or(SlotError::NoRandomness)?;
        let increment = |used: usize| (used < self.capacity).then_some(used + 1);
        match self.slots_used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment) {
            Ok(_) => Ok(ReservationSlot { id, store: Arc::clone(self), is_filled: false }),
            Err(used) => Err(SlotError::Full(used)),
        }
    }

    /// Removes an entry and returns its outcome, unless it has expired or is not of this `kind`.
    pub(in crate::http) fn take(&self, id: ReservationId, kind: ReservationKind) -> Option<Outcome> {
        let mut shard = self.shard(id).lock();
        let entry = shard.get(id).filter(|entry| entry.kind == kind)?;
        if entry.expires_at <= self.clock.now() {
            // The timer is about to release it.
            return None;
        }
        let entry = shard.remove(id)?;
        drop(shard);
        self.slots_used.fetch_sub(1, Ordering::Relaxed);
        Some(entry.outcome)
    }

    /// Renews a permit for `ttl`, or for its previous time to live.
    pub(in crate::http) fn renew(&self, id: ReservationId, ttl: Option<Duration>) -> Option<StoredReservation> {
        let (ttl, until) = {
            let mut shard = self.shard(id).lock();
            let now = self.clock.now();
            let entry =
                shard.get(id).filter(|entry| entry.kind == ReservationKind::Permit && entry.expires_at > now)?;
            let ttl = ttl.unwrap_or(entry.ttl);
            (ttl, shard.renew(id, ttl, now)?)
        };
        self.wake_timer_by(until);
        Some(StoredReservation { id, ttl })
    }

    /// Number of slots in use.
    pub(in crate::http) fn slots_used(&self) -> usize {
        self.slots_used.load(Ordering::Relaxed)
    }

    /// Number of entries that expired.
    pub(in crate::http) fn expired_total(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Releases expired entries; never returns: reserved costs stay consumed, permits are given back. Run it once.
    pub(in crate::http) async fn expire(&self) {
        loop {
            // From here on, new entries wake the timer.
            self.next_expiry.store(NEVER, Ordering::SeqCst);
            let mut soonest = NEVER;
            for shard in &self.shards {
                soonest = soonest.min(self.expire_shard(shard).await);
            }
            match self.next_expiry.fetch_min(soonest, Ordering::SeqCst).min(soonest) {
                NEVER => self.timer_wakeup.notified().await,
                next => tokio::select! {
                    () = self.clock.sleep_until(Timestamp::from_nanos(next)) => {}
                    () = self.timer_wakeup.notified() => {}
                },
            }
        }
    }

    /// Releases the expired entries of one shard. Returns the next expiry.
    async fn expire_shard(&self, shard: &Mutex<ReservationShard>) -> u64 {
        loop {
            let (expired, soonest) = {
                let mut shard = shard.lock();
                (shard.take_expired(self.clock.now(), EXPIRE_BATCH), shard.next_expiry())
            };
            let (count, is_last) = (expired.len(), expired.len() < EXPIRE_BATCH);
            // Dropped outside the lock: giving back may wake waiting requests.
            drop(expired);
            self.slots_used.fetch_sub(count, Ordering::Relaxed);
            self.expired.fetch_add(count as u64, Ordering::Relaxed);
            if is_last {
                return soonest.map_or(NEVER, Timestamp::as_nanos);
            }
            tokio::task::yield_now().await;
        }
    }

    fn shard(&self, id: ReservationId) -> &Mutex<ReservationShard> {
        &self.shards[id.shard_index(self.shards.len())]
    }

    /// Makes the timer fire no later than `expires_at`.
    fn wake_timer_by(&self, expires_at: Timestamp) {
        let until = expires_at.as_nanos();
        if self.next_expiry.fetch_min(until, Ordering::SeqCst) > until {
            self.timer_wakeup.notify_one();
        }
    }
}

impl ReservationSlot {
    /// Stores an outcome in this slot for `ttl`.
    pub(in crate::http) fn fill(mut self, kind: ReservationKind, outcome: Outcome, ttl: Duration) -> StoredReservation {
        self.is_filled = true;
        let Self { id, store, .. } = &self;
        let until = store.clock.now() + ttl;
        store.shard(*id).lock().insert(*id, ReservationEntry { kind, outcome, ttl, expires_at: until });
        store.wake_timer_by(until);
        StoredReservation { id: *id, ttl }
    }
}

impl Drop for ReservationSlot {
    fn drop(&mut self) {
        if !self.is_filled {
            self.store.slots_used.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
