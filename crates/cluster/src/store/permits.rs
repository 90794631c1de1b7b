//! Permits this process holds in the store, renewed while they are held.
//!
//! A permit in the store lives for a while and no longer, so that a process that is gone frees what it
//! held. Whoever is still there says so in time: three times in a permit's life.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;

use super::exact::ExactBatch;
use crate::ask::{PermitId, Unit};
use crate::driver::{Driver, random};
use crate::exact::{Renewal, decode_renew, encode_renew};

/// Permits renewed in one call.
const AT_ONCE: usize = 256;

/// The permits of this process.
#[derive(Clone)]
pub(super) struct Permits(Arc<Held>);

struct Held {
    /// What this process names its permits with.
    process: u64,
    next: AtomicU64,
    renewals: Mutex<HashMap<PermitId, Renewal>>,
}

impl Permits {
    /// Begins to renew what is kept.
    pub(super) fn start(driver: &Driver<ExactBatch>, life: Duration, in_slots: bool) -> Self {
        let process = random();
        let held = Arc::new(Held { process, next: AtomicU64::new(0), renewals: Mutex::default() });
        let (renewing, background) = (Arc::downgrade(&held), driver.background());
        driver.spawn(async move {
            let interval = life / 3;
            loop {
                tokio::time::sleep(interval).await;
                let Some(held) = renewing.upgrade() else { return };
                // All at once: one server of several that hangs must not hold up what others keep. What cannot be
                // renewed now is tried again before it ends.
                join_all(held.batches(in_slots).into_iter().map(|together| {
                    let (held, answer) = (&held, background.call(encode_renew(&together, None), interval / 2));
                    async move {
                        let Ok(answer) = answer.await else { return };
                        let Ok(renewed) = decode_renew(answer, &together) else { return };
                        held.forget_lost(&together, &renewed);
                    }
                }))
                .await;
            }
        });
        Self(held)
    }

    /// A name for permits: no other has it.
    pub(super) fn name(&self) -> PermitId {
        let nth = self.0.next.fetch_add(1, Ordering::Relaxed);
        PermitId(u128::from(self.0.process) << 64 | u128::from(nth))
    }

    /// Renews what a unit holds from now on.
    pub(super) fn keep(&self, unit: &Unit) {
        if let Some(permit) = unit.permit {
            let (key, limits) = (unit.key.clone(), Arc::clone(&unit.limits));
            self.0.renewals.lock().insert(permit, Renewal { key, limits, taken: unit.cost, permit });
        }
    }

    /// Does so no more.
    pub(super) fn let_go(&self, unit: &Unit) {
        if let Some(permit) = unit.permit {
            self.0.renewals.lock().remove(&permit);
        }
    }
}

impl Held {
    /// Forgets permits that the store has forgotten: they ended before they were renewed, and may be
    /// another's by now.
    fn forget_lost(&self, asked: &[Renewal], renewed: &[bool]) {
        let mut renewals = self.renewals.lock();
        for (renewal, _) in asked.iter().zip(renewed).filter(|(_, renewed)| !**renewed) {
            renewals.remove(&renewal.permit);
        }
    }

    /// All that is held, in calls that reach it.
    fn batches(&self, in_slots: bool) -> Vec<Vec<Renewal>> {
        let mut by_slot: HashMap<u16, Vec<Renewal>> = HashMap::new();
        for renewal in self.renewals.lock().values() {
            let slot = if in_slots { renewal.key.slot() } else { 0 };
            by_slot.entry(slot).or_default().push(renewal.clone());
        }
        by_slot
            .into_values()
            .flat_map(|slot| slot.chunks(AT_ONCE).map(<[Renewal]>::to_vec).collect::<Vec<_>>())
            .collect()
    }
}
