//! All that is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::clock::ClockHandle;
use sluicegate_engine::{Outcome, Timestamp};
use tokio::sync::Notify;

use super::shard::{Entry, Shard};
use super::{Id, Kind};

/// Many more than there are threads, so that these seldom meet.
const SHARDS: usize = 64;
/// How many are let go at once before others have a turn.
const AT_ONCE: usize = 64;
/// No moment: nothing is held.
const NEVER: u64 = u64::MAX;

/// All that is held for clients.
pub(in crate::http) struct Registry {
    shards: Box<[Mutex<Shard>]>,
    /// Places that are taken, also by what is still being decided.
    taken: AtomicUsize,
    most: usize,
    clock: ClockHandle,
    /// The moment the timer waits for.
    next: AtomicU64,
    /// Something is due sooner than that.
    sooner: Notify,
    expired: AtomicU64,
}

/// Room for one more. Dropping it gives it back.
pub(in crate::http) struct Place {
    id: Id,
    registry: Arc<Registry>,
    /// Whether something is kept there, which gives it back when it ends.
    is_kept: bool,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) enum NoPlace {
    /// So many are held already.
    Full(usize),
    /// No id can be made up.
    NoRandomness,
}

/// What is held now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::http) struct Kept {
    pub(in crate::http) id: Id,
    pub(in crate::http) ttl: Duration,
}

impl Registry {
    pub(in crate::http) fn new(most: usize, clock: ClockHandle) -> Arc<Self> {
        Arc::new(Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            taken: AtomicUsize::new(0),
            most,
            clock,
            next: AtomicU64::new(NEVER),
            sooner: Notify::new(),
            expired: AtomicU64::new(0),
        })
    }

    /// Takes a place for one more.
    pub(in crate::http) fn place(self: &Arc<Self>) -> Result<Place, NoPlace> {
        let id = Id::fresh().ok_or(NoPlace::NoRandomness)?;
        let one_more = |taken: usize| (taken < self.most).then_some(taken + 1);
        match self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => Ok(Place { id, registry: Arc::clone(self), is_kept: false }),
            Err(taken) => Err(NoPlace::Full(taken)),
        }
    }

    /// Ends what is held: hands it out, unless its time is up. `kind` must be what it is.
    pub(in crate::http) fn take(&self, id: Id, kind: Kind) -> Option<Outcome> {
        let mut shard = self.shard(id).lock();
        let entry = shard.get(id).filter(|entry| entry.kind == kind)?;
        if entry.until <= self.clock.now() {
            // The timer is about to let it go.
            return None;
        }
        let entry = shard.remove(id)?;
        drop(shard);
        self.taken.fetch_sub(1, Ordering::Relaxed);
        Some(entry.outcome)
    }

    /// Holds a permit on, for `ttl` or as long as before.
    pub(in crate::http) fn renew(&self, id: Id, ttl: Option<Duration>) -> Option<Kept> {
        let (ttl, until) = {
            let mut shard = self.shard(id).lock();
            let now = self.clock.now();
            let entry = shard.get(id).filter(|entry| entry.kind == Kind::Permit && entry.until > now)?;
            let ttl = ttl.unwrap_or(entry.ttl);
            (ttl, shard.renew(id, ttl, now)?)
        };
        self.watch(until);
        Some(Kept { id, ttl })
    }

    /// How many places are taken.
    pub(in crate::http) fn held(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// How many were let go because their time was up.
    pub(in crate::http) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Lets go what nobody has ended in time, for ever: what was reserved stands, permits are given back. To be
    /// run once.
    pub(in crate::http) async fn expire(&self) {
        loop {
            // From here on, whoever comes with something that is due tells us.
            self.next.store(NEVER, Ordering::SeqCst);
            let mut soonest = NEVER;
            for shard in &self.shards {
                soonest = soonest.min(self.expire_shard(shard).await);
            }
            match self.next.fetch_min(soonest, Ordering::SeqCst).min(soonest) {
                NEVER => self.sooner.notified().await,
                next => tokio::select! {
                    () = self.clock.sleep_until(Timestamp::from_nanos(next)) => {}
                    () = self.sooner.notified() => {}
                },
            }
        }
    }

    /// Lets go what is due in one shard. Answers when the next one is.
    async fn expire_shard(&self, shard: &Mutex<Shard>) -> u64 {
        loop {
            let (expired, soonest) = {
                let mut shard = shard.lock();
                (shard.expired(self.clock.now(), AT_ONCE), shard.soonest())
            };
            let (count, is_all) = (expired.len(), expired.len() < AT_ONCE);
            // Not under the lock: what is given back may wake others.
            drop(expired);
            self.taken.fetch_sub(count, Ordering::Relaxed);
            self.expired.fetch_add(count as u64, Ordering::Relaxed);
            if is_all {
                return soonest.map_or(NEVER, Timestamp::as_nanos);
            }
            tokio::task::yield_now().await;
        }
    }

    fn shard(&self, id: Id) -> &Mutex<Shard> {
        &self.shards[id.spread(self.shards.len())]
    }

    /// Sees to it that the timer goes off at `until` or before.
    fn watch(&self, until: Timestamp) {
        let until = until.as_nanos();
        if self.next.fetch_min(until, Ordering::SeqCst) > until {
            self.sooner.notify_one();
        }
    }
}

impl Place {
    /// Keeps an outcome here for `ttl`.
    pub(in crate::http) fn keep(mut self, kind: Kind, outcome: Outcome, ttl: Duration) -> Kept {
        self.is_kept = true;
        let Self { id, registry, .. } = &self;
        let until = registry.clock.now() + ttl;
        registry.shard(*id).lock().insert(*id, Entry { kind, outcome, ttl, until });
        registry.watch(until);
        Kept { id: *id, ttl }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_kept {
            self.registry.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
