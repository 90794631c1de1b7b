//! Sync of this process's sluices with the cluster's shared state: bans and lists.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::{Expr, ExprError, Lists};
use sluicegate_engine::sluice::{BanEvent, WeakSluice};
use tokio::sync::Notify;

use super::exact::ExactBatch;
use crate::client::{StoreClient, random};
use crate::shared_state::{EntryChange, ListChange, ListKind, SyncCursor, SyncResult, build_lists};

/// Sync interval. A change propagates within twice this and a round trip.
const SYNC_INTERVAL: Duration = Duration::from_millis(250);

/// Timeout of a sync.
const SYNC_TIMEOUT: Duration = Duration::from_millis(500);

/// Maximum ban events queued while the store is unreachable; beyond that the oldest are dropped.
const MAX_UNSENT: usize = 16_384;

/// Maximum bans per sync: the script blocks the store, and other calls have deadlines.
const MAX_BANS_PER_SYNC: usize = 256;

/// Handle of the sync task.
#[derive(Clone)]
pub(super) struct SharedStateSync(Arc<SyncState>);

struct SyncState {
    sluices: Mutex<Vec<WeakSluice>>,
    changes: Mutex<Vec<ListChange>>,
    /// The cluster's lists as last read.
    lists: Mutex<Lists>,
    /// Their entries, with the time they were read.
    entries: Mutex<Vec<(Instant, ListChange)>>,
    /// Set when a sluice was added that has no shared state yet.
    has_new_sluice: AtomicBool,
    /// Wakes the sync task.
    wakeup: Notify,
}

impl SharedStateSync {
    pub(super) fn start(client: &StoreClient<ExactBatch>, prefix: &str) -> Self {
        let shared = Arc::new(SyncState {
            sluices: Mutex::default(),
            changes: Mutex::default(),
            lists: Mutex::default(),
            entries: Mutex::default(),
            has_new_sluice: AtomicBool::new(false),
            wakeup: Notify::new(),
        });
        let name = format!("{:016x}", random());
        let (cursor, background) = (SyncCursor::new(prefix, name), client.background());
        client.spawn(Arc::clone(&shared).run(background, cursor));
        Self(shared)
    }

    pub(super) fn add(&self, sluice: &Sluice) {
        self.0.sluices.lock().push(sluice.downgrade());
        self.0.has_new_sluice.store(true, Ordering::SeqCst);
        // A concurrent read may have been applied to the other sluices only.
        loop {
            let lists = self.0.lists.lock().clone();
            // Only fails if the rules themselves cannot be applied again, and they are active.
            let _ = sluice.set_shared_lists(lists.clone());
            if *self.0.lists.lock() == lists {
                break;
            }
        }
        self.0.wakeup.notify_one();
    }

    pub(super) fn add_entry(&self, kind: ListKind, text: &str, ttl: Option<Duration>) -> Result<(), ExprError> {
        Expr::parse(text)?;
        self.change(kind, text, EntryChange::Add(ttl));
        Ok(())
    }

    pub(super) fn remove_entry(&self, kind: ListKind, text: &str) {
        self.change(kind, text, EntryChange::Remove);
    }

    fn change(&self, kind: ListKind, text: &str, change: EntryChange) {
        self.0.changes.lock().push(ListChange { kind, text: text.to_owned(), change });
        self.0.wakeup.notify_one();
    }
}

/// Ban events not sent yet, with the time they were queued.
#[derive(Default)]
struct UnsentBans(VecDeque<(Instant, BanEvent)>);

impl UnsentBans {
    fn add(&mut self, event: impl Iterator<Item = BanEvent>, now: Instant) {
        self.0.extend(event.map(|event| (now, event)));
        self.0.drain(..self.0.len().saturating_sub(MAX_UNSENT));
    }

    /// The number of events in the next batch, and those still valid: bans expire while queued.
    fn next_batch(&self, now: Instant) -> (usize, Vec<BanEvent>) {
        let count = self.0.len().min(MAX_BANS_PER_SYNC);
        let left = self.0.iter().take(count).filter_map(|(since, event)| {
            let waited = now.saturating_duration_since(*since);
            let remaining = match event.remaining {
                Some(remaining) => Some(remaining.checked_sub(waited).filter(|left| !left.is_zero())?),
                None => None,
            };
            Some(BanEvent { remaining, ..event.clone() })
        });
        (count, left.collect())
    }
}

impl SyncState {
    /// The sync loop; runs until the client ends.
    async fn run(self: Arc<Self>, client: StoreClient<ExactBatch>, mut cursor: SyncCursor) {
        let mut unsent = UnsentBans::default();
        let mut sync_now = false;
        loop {
            if !sync_now {
                let _ = tokio::time::timeout(SYNC_INTERVAL, self.wakeup.notified()).await;
            }
            sync_now = false;
            if self.has_new_sluice.swap(false, Ordering::SeqCst) {
                cursor.reset_bans();
            }
            let sluices = self.live_sluices();
            if sluices.is_empty() && self.changes.lock().is_empty() {
                continue;
            }
            unsent.add(sluices.iter().flat_map(Sluice::drain_ban_events), Instant::now());
            if client.is_degraded() {
                continue;
            }
            let (count, bans) = unsent.next_batch(Instant::now());
            let changes = self.changes.lock().clone();
            let Ok(reply) = client.call(cursor.encode(&bans, &changes), SYNC_TIMEOUT).await else { continue };
            let Some(mut result) = cursor.apply_reply(reply) else { continue };
            unsent.0.drain(..count);
            self.changes.lock().drain(..changes.len());
            if result.is_reset {
                if self.restore_lost_entries(&result) {
                    // Applied after the store has processed them: some may have been removed meanwhile.
                    result.entries = None;
                    cursor.reset_lists();
                }
                // The store has lost all earlier bans.
                unsent.add(sluices.iter().flat_map(Sluice::active_bans), Instant::now());
            }
            sync_now = result.has_more || !unsent.0.is_empty() || !self.changes.lock().is_empty();
            self.apply(sluices, result).await;
        }
    }

    /// Queues entries that the store has lost for restoration. Returns true if there are any: then the store's
    /// lists are not applied before the entries are back.
    fn restore_lost_entries(&self, result: &SyncResult) -> bool {
        let now = Instant::now();
        let stored = result.entries.as_deref().unwrap_or_default();
        let is_stored =
            |known: &ListChange| stored.iter().any(|entry| entry.kind == known.kind && entry.text == known.text);
        let known = std::mem::take(&mut *self.entries.lock());
        let missing = known.into_iter().filter(|(_, entry)| !is_stored(entry)).filter_map(|(since, entry)| {
            let EntryChange::Add(left) = entry.change else { return None };
            let left = match left {
                Some(left) => Some(left.checked_sub(now.saturating_duration_since(since))?),
                None => None,
            };
            Some(ListChange { change: EntryChange::Restore(left), ..entry })
        });
        let missing: Vec<ListChange> = missing.collect();
        let mut changes = self.changes.lock();
        changes.splice(0..0, missing.iter().cloned());
        !missing.is_empty()
    }

    fn live_sluices(&self) -> Vec<Sluice> {
        let mut sluices = self.sluices.lock();
        sluices.retain(WeakSluice::is_alive);
        sluices.iter().filter_map(WeakSluice::upgrade).collect()
    }

    async fn apply(&self, sluices: Vec<Sluice>, result: SyncResult) {
        for sluice in &sluices {
            for event in &result.bans {
                sluice.apply_ban_event(event);
            }
        }
        if let Some(entries) = result.entries {
            let lists = build_lists(&entries);
            let now = Instant::now();
            *self.entries.lock() = entries.into_iter().map(|entry| (now, entry)).collect();
            *self.lists.lock() = lists.clone();
            // Includes sluices added during the sync.
            let sluices = self.live_sluices();
            // Applying long lists takes a while, and this thread serves decisions.
            let rebuild = tokio::task::spawn_blocking(move || {
                for sluice in sluices {
                    let _ = sluice.set_shared_lists(lists.clone());
                }
            });
            let _ = rebuild.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ban(index: usize, seconds: Option<u64>) -> BanEvent {
        let (rule, name) = ("per-ip".to_owned(), index.to_string());
        BanEvent { rule, name, key: index.to_le_bytes().as_slice().into(), remaining: seconds.map(Duration::from_secs) }
    }

    #[test]
    fn queued_bans_expire_before_they_are_sent() {
        let (now, mut unsent) = (Instant::now(), UnsentBans::default());
        unsent.add([ban(1, Some(60)), ban(2, Some(600)), ban(3, None)].into_iter(), now);
        let (count, left) = unsent.next_batch(now + Duration::from_secs(100));
        assert_eq!((count, left), (3, vec![ban(2, Some(500)), ban(3, None)]));
    }

    #[test]
    fn many_bans_are_sent_in_batches() {
        let (now, mut unsent) = (Instant::now(), UnsentBans::default());
        unsent.add((0..MAX_UNSENT + 7).map(|index| ban(index, Some(60))), now);
        let mut sent = Vec::new();
        while !unsent.0.is_empty() {
            let (count, batch) = unsent.next_batch(now);
            assert!(batch.len() <= MAX_BANS_PER_SYNC);
            sent.extend(batch);
            unsent.0.drain(..count);
        }
        assert_eq!((sent.len(), &sent[0]), (MAX_UNSENT, &ban(7, Some(60))));
    }
}
