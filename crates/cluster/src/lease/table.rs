//! Lease table: all keys of a leased rule on one node.
//!
//! A caller is served from its key's slice under one short lock of the key's shard. Requests are sent and
//! callers notified only after the lock is released.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rapidhash::RapidHashMap;
use sluicegate_engine::Timestamp;
use sluicegate_engine::algorithm::Status;
use sluicegate_engine::clock::ClockHandle;

use super::codec::LeaseFrame;
use super::message::{Account, LeaseReply, LeaseRequest, NodeId};
use super::node::{Effects, EnqueueResult, LeaseHolder, LeaseOutcome, LeaseReceipt};
use super::params::LeaseParams;
use super::stats::{LeaseCounters, LeaseHoldings, LeaseStats};
use super::waiter::{LeaseWait, LeaseWaiter};
use crate::keys::StoreKey;

const SHARDS: usize = 64;
/// Maximum keys scanned to find one to evict.
const EVICTION_SCAN_LIMIT: usize = 32;

/// Sends requests to the store. Each is completed by [`LeaseTable::on_reply`] or [`LeaseTable::on_failure`].
pub(crate) trait LeaseTransport: Send + Sync {
    /// Sends a request; must not block.
    fn send(&self, message: LeaseMessage);
}

/// A request to be sent.
#[derive(Clone, Debug)]
pub(crate) struct LeaseMessage {
    /// The key's hash in the table.
    pub(crate) hash: u64,
    pub(crate) key: StoreKey,
    pub(crate) params: Arc<LeaseParams>,
    pub(crate) request: LeaseRequest,
}

impl LeaseMessage {
    /// The frame to encode.
    pub(crate) fn frame(&self) -> LeaseFrame<'_> {
        LeaseFrame { key: &self.key, params: &self.params, request: &self.request }
    }
}

/// Immediate result for a caller.
#[derive(Debug)]
pub(crate) enum LocalResult {
    /// The cost was taken; the status is what remains.
    Acquired(LeaseReceipt, Status),
    /// Refused for so many nanoseconds.
    NotBefore(u64, Status),
    /// More than the limits can ever admit at once.
    Never,
    /// The store is being queried.
    Waiting(LeaseWait),
    /// Too many callers or keys.
    Full,
}

/// All keys of a leased rule. See the [module documentation](self).
pub(crate) struct LeaseTable {
    params: Arc<LeaseParams>,
    node: NodeId,
    clock: ClockHandle,
    transport: Arc<dyn LeaseTransport>,
    counters: Arc<LeaseCounters>,
    epochs: AtomicU64,
    max_keys_per_shard: usize,
    shards: Box<[Mutex<LeaseShard>]>,
}

type LeaseShard = RapidHashMap<u64, LeaseEntry>;

struct LeaseEntry {
    key: StoreKey,
    holder: LeaseHolder<LeaseWaiter>,
}

impl LeaseTable {
    /// Creates an empty table of at most about `capacity` keys.
    pub(crate) fn new(
        params: LeaseParams,
        node: NodeId,
        capacity: usize,
        clock: ClockHandle,
        transport: Arc<dyn LeaseTransport>,
        counters: Arc<LeaseCounters>,
    ) -> Self {
        Self {
            params: Arc::new(params),
            node,
            clock,
            transport,
            counters,
            epochs: AtomicU64::new(1),
            max_keys_per_shard: capacity.div_ceil(SHARDS).max(1),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    /// Takes `cost` for the key with this hash; `key` names it in the store if it is new here. A cost of
    /// zero only reads the status.
    #[inline]
    pub(crate) fn take(self: &Arc<Self>, hash: u64, cost: u64, key: impl FnOnce() -> StoreKey) -> LocalResult {
        if cost > self.params.capacity() {
            return LocalResult::Never;
        }
        if cost == 0 {
            return LocalResult::Acquired(LeaseReceipt::empty(), self.status(hash));
        }
        let now = self.clock.now();
        let mut shard = self.shard(hash).lock();
        let Some(entry) = shard.get_mut(&hash) else {
            drop(shard);
            return self.take_new_key(hash, cost, now, key);
        };
        let Some((receipt, request)) = entry.holder.take(cost, now) else {
            let (local, request) = self.enqueue(hash, entry, cost, now);
            let message = request.map(|request| self.message(hash, &entry.key, request));
            drop(shard);
            self.send(message);
            return local;
        };
        let status = entry.holder.status(&self.params);
        let message = request.map(|request| self.message(hash, &entry.key, request));
        drop(shard);
        self.send(message);
        LocalResult::Acquired(receipt, status)
    }

    /// Decides for a known key, if the store is not needed.
    #[inline]
    pub(crate) fn try_take(&self, hash: u64, cost: u64) -> Option<LocalResult> {
        if cost > self.params.capacity() {
            return Some(LocalResult::Never);
        }
        if cost == 0 {
            return None;
        }
        let now = self.clock.now();
        let mut shard = self.shard(hash).lock();
        let entry = shard.get_mut(&hash)?;
        let Some((receipt, request)) = entry.holder.take(cost, now) else {
            let wait = entry.holder.try_refuse(cost, now)?;
            return Some(LocalResult::NotBefore(wait, entry.holder.status(&self.params)));
        };
        let status = entry.holder.status(&self.params);
        let message = request.map(|request| self.message(hash, &entry.key, request));
        drop(shard);
        self.send(message);
        Some(LocalResult::Acquired(receipt, status))
    }

    /// As `take`, for a key that is not in the table yet.
    #[cold]
    fn take_new_key(
        self: &Arc<Self>,
        hash: u64,
        cost: u64,
        now: Timestamp,
        key: impl FnOnce() -> StoreKey,
    ) -> LocalResult {
        let mut shard = self.shard(hash).lock();
        let Some((entry, closing_request)) = self.entry(&mut shard, hash, now, key) else { return LocalResult::Full };
        // Another caller may have added it meanwhile, with a slice.
        let (local, request) = match entry.holder.take(cost, now) {
            Some((receipt, request)) => (LocalResult::Acquired(receipt, entry.holder.status(&self.params)), request),
            None => self.enqueue(hash, entry, cost, now),
        };
        let message = request.map(|request| self.message(hash, &entry.key, request));
        drop(shard);
        self.send(closing_request);
        self.send(message);
        local
    }

    /// The key's entry, created if needed. If the shard is full, another entry is evicted and its slice
    /// returned; `None` if none can be evicted.
    fn entry<'a>(
        &self,
        shard: &'a mut LeaseShard,
        hash: u64,
        now: Timestamp,
        key: impl FnOnce() -> StoreKey,
    ) -> Option<(&'a mut LeaseEntry, Option<LeaseMessage>)> {
        let mut closing_request = None;
        if shard.len() >= self.max_keys_per_shard && !shard.contains_key(&hash) {
            let evictable = shard.iter().take(EVICTION_SCAN_LIMIT).filter(|(_, entry)| entry.holder.is_evictable());
            let evicted = evictable.min_by_key(|(_, entry)| entry.holder.last_used()).map(|(hash, _)| *hash)?;
            let mut entry = shard.remove(&evicted)?;
            closing_request = entry.holder.close(now).request.map(|request| self.message(evicted, &entry.key, request));
            self.counters.add(entry.holder.take_stats());
        }
        let entry = shard.entry(hash).or_insert_with(|| {
            let epoch = self.epochs.fetch_add(1, Ordering::Relaxed);
            LeaseEntry { key: key(), holder: LeaseHolder::new(&self.params, self.node, epoch, now) }
        });
        Some((entry, closing_request))
    }

    fn enqueue(
        self: &Arc<Self>,
        hash: u64,
        entry: &mut LeaseEntry,
        cost: u64,
        now: Timestamp,
    ) -> (LocalResult, Option<LeaseRequest>) {
        let status = entry.holder.status(&self.params);
        let mut waiting = None;
        let result = entry.holder.enqueue(cost, now, || {
            let (waiter, wait) = LeaseWait::new(self, hash);
            waiting = Some(wait);
            waiter
        });
        match (result, waiting) {
            (EnqueueResult::Send(request), Some(waiting)) => (LocalResult::Waiting(waiting), Some(request)),
            (EnqueueResult::Queued, Some(waiting)) => (LocalResult::Waiting(waiting), None),
            (EnqueueResult::NotBefore(wait), _) => (LocalResult::NotBefore(wait, status), None),
            (EnqueueResult::Full | EnqueueResult::Send(_) | EnqueueResult::Queued, _) => (LocalResult::Full, None),
        }
    }

    /// The lease parameters of the limits.
    pub(crate) const fn params(&self) -> &Arc<LeaseParams> {
        &self.params
    }

    /// Status of a key's limits, as known locally.
    fn status(&self, hash: u64) -> Status {
        let full = Status { limit: self.params.capacity(), remaining: self.params.capacity(), reset: 0 };
        self.shard(hash).lock().get(&hash).map_or(full, |entry| entry.holder.status(&self.params))
    }

    /// Returns unused tokens, unless their spending was reported to the store.
    pub(crate) fn return_tokens(&self, hash: u64, receipt: LeaseReceipt) {
        let now = self.clock.now();
        if let Some(entry) = self.shard(hash).lock().get_mut(&hash) {
            entry.holder.return_tokens(receipt, now);
        }
    }

    /// Charges the cost of a request beyond its estimate, available or not; `key` names the key
    /// in the store if it is no longer in the table.
    pub(crate) fn charge(&self, hash: u64, cost: u64, key: impl FnOnce() -> StoreKey) {
        let now = self.clock.now();
        let mut shard = self.shard(hash).lock();
        let Some((entry, closing_request)) = self.entry(&mut shard, hash, now, key) else { return };
        entry.holder.charge(cost);
        drop(shard);
        self.send(closing_request);
    }

    /// Applies the reply to the request that reported `account` for this key.
    pub(crate) fn on_reply(&self, hash: u64, account: &Account, reply: &LeaseReply) {
        let now = self.clock.now();
        self.apply_event(hash, |holder| holder.on_reply(&self.params, account, reply, now));
    }

    /// The request that reported `account` for this key failed or timed out.
    pub(crate) fn on_failure(&self, hash: u64, account: &Account) {
        let now = self.clock.now();
        self.apply_event(hash, |holder| holder.on_failure(account, now));
    }

    fn apply_event(&self, hash: u64, event: impl FnOnce(&mut LeaseHolder<LeaseWaiter>) -> Effects<LeaseWaiter>) {
        let mut shard = self.shard(hash).lock();
        let Some(entry) = shard.get_mut(&hash) else { return };
        let effects = event(&mut entry.holder);
        let status = entry.holder.status(&self.params);
        let message = effects.request.map(|request| self.message(hash, &entry.key, request));
        drop(shard);
        self.send(message);
        for (waiter, outcome) in effects.notify {
            self.notify(hash, waiter, outcome, status);
        }
    }

    /// Notifies a caller; the tokens of a cancelled one are returned.
    fn notify(&self, hash: u64, waiter: LeaseWaiter, outcome: LeaseOutcome, status: Status) {
        if let Some(LeaseOutcome::Acquired(receipt)) = waiter.notify(outcome, status) {
            self.return_tokens(hash, receipt);
        }
    }

    /// To be called about every fifty milliseconds: returns and renews slices and drops idle keys. The result is the
    /// current holdings.
    pub(crate) fn tick(&self) -> LeaseHoldings {
        let now = self.clock.now();
        let (mut holdings, mut stats) = (LeaseHoldings::default(), LeaseStats::default());
        for shard in &self.shards {
            let mut messages = Vec::new();
            shard.lock().retain(|hash, entry| {
                if let Some(request) = entry.holder.tick(now) {
                    messages.push(self.message(*hash, &entry.key, request));
                }
                holdings += entry.holder.holdings(now);
                stats += entry.holder.take_stats();
                !entry.holder.is_idle(now)
            });
            messages.into_iter().for_each(|message| self.transport.send(message));
        }
        self.counters.add(stats);
        holdings
    }

    /// Returns all slices and drops all keys. Waiting callers fail.
    pub(crate) fn close(&self) {
        let now = self.clock.now();
        for shard in &self.shards {
            let entries = std::mem::take(&mut *shard.lock());
            for (hash, mut entry) in entries {
                let effects = entry.holder.close(now);
                self.counters.add(entry.holder.take_stats());
                self.send(effects.request.map(|request| self.message(hash, &entry.key, request)));
                let status = entry.holder.status(&self.params);
                effects.notify.into_iter().for_each(|(waiter, outcome)| self.notify(hash, waiter, outcome, status));
            }
        }
    }

    /// Number of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    fn shard(&self, hash: u64) -> &Mutex<LeaseShard> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    fn message(&self, hash: u64, key: &StoreKey, request: LeaseRequest) -> LeaseMessage {
        LeaseMessage { hash, key: key.clone(), params: Arc::clone(&self.params), request }
    }

    fn send(&self, message: Option<LeaseMessage>) {
        if let Some(message) = message {
            self.transport.send(message);
        }
    }
}

#[cfg(test)]
mod tests;
