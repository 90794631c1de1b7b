//! Renewal of the permits that this process holds in the store.
//!
//! A permit in the store has a time to live, so that a crashed process frees its permits. Permits in use
//! are renewed three times per time to live.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;

use super::exact::ExactBatch;
use crate::client::{StoreClient, random};
use crate::decision::{KeyCheck, PermitId};
use crate::exact::{Renewal, decode_renew, encode_renew};

/// Permits renewed in one call.
const RENEWAL_BATCH: usize = 256;

/// The permits of this process.
#[derive(Clone)]
pub(super) struct PermitRenewer(Arc<PermitRegistry>);

struct PermitRegistry {
    /// The high half of this process's permit IDs.
    process_id: u64,
    next: AtomicU64,
    renewals: Mutex<HashMap<PermitId, Renewal>>,
}

impl PermitRenewer {
    /// Starts the renewal task.
    pub(super) fn start(client: &StoreClient<ExactBatch>, ttl: Duration, in_slots: bool) -> Self {
        let process = random();
        let registry =
            Arc::new(PermitRegistry { process_id: process, next: AtomicU64::new(0), renewals: Mutex::default() });
        let (weak, background) = (Arc::downgrade(&registry), client.background());
        client.spawn(async move {
            let interval = ttl / 3;
            loop {
                tokio::time::sleep(interval).await;
                let Some(registry) = weak.upgrade() else { return };
                // Concurrently: one hung server must not delay renewals on the others. A failed renewal is
                // retried before the permit expires.
                join_all(registry.batches(in_slots).into_iter().map(|batch| {
                    let (registry, reply) = (&registry, background.call(encode_renew(&batch, None), interval / 2));
                    async move {
                        let Ok(reply) = reply.await else { return };
                        let Ok(renewed) = decode_renew(reply, &batch) else { return };
                        registry.remove_lost(&batch, &renewed);
                    }
                }))
                .await;
            }
        });
        Self(registry)
    }

    /// A new unique permit ID.
    pub(super) fn new_id(&self) -> PermitId {
        let sequence = self.0.next.fetch_add(1, Ordering::Relaxed);
        PermitId(u128::from(self.0.process_id) << 64 | u128::from(sequence))
    }

    /// Starts renewing the permits of a check.
    pub(super) fn track(&self, check: &KeyCheck) {
        if let Some(permit) = check.permit {
            let (key, limits) = (check.key.clone(), Arc::clone(&check.limits));
            self.0.renewals.lock().insert(permit, Renewal { key, limits, taken: check.cost, permit });
        }
    }

    /// Stops renewing the permits of a check.
    pub(super) fn untrack(&self, check: &KeyCheck) {
        if let Some(permit) = check.permit {
            self.0.renewals.lock().remove(&permit);
        }
    }
}

impl PermitRegistry {
    /// Removes permits that the store no longer has: they expired before renewal, and may belong to
    /// another process by now.
    fn remove_lost(&self, batch: &[Renewal], renewed: &[bool]) {
        let mut renewals = self.renewals.lock();
        for (renewal, _) in batch.iter().zip(renewed).filter(|(_, renewed)| !**renewed) {
            renewals.remove(&renewal.permit);
        }
    }

    /// All tracked permits, batched by slot.
    fn batches(&self, in_slots: bool) -> Vec<Vec<Renewal>> {
        let mut by_slot: HashMap<u16, Vec<Renewal>> = HashMap::new();
        for renewal in self.renewals.lock().values() {
            let slot = if in_slots { renewal.key.slot() } else { 0 };
            by_slot.entry(slot).or_default().push(renewal.clone());
        }
        by_slot
            .into_values()
            .flat_map(|slot| slot.chunks(RENEWAL_BATCH).map(<[Renewal]>::to_vec).collect::<Vec<_>>())
            .collect()
    }
}
