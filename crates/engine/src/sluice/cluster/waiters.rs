//! Number of requests waiting for a key that the cluster counts.
//!
//! There is no queue order: the store returns a retry time to each request, and the first to retry wins. A
//! queue local to this process would not be one of the cluster.

use std::sync::Arc;

use parking_lot::Mutex;
use rapidhash::RapidHashMap;

use crate::table::KeyHash;

/// Number of waiting requests by key.
#[derive(Clone, Default)]
pub(super) struct WaiterCounts(Arc<Mutex<RapidHashMap<KeyHash, u32>>>);

/// Slot of a waiting request; freed on drop.
pub(super) struct WaiterSlot {
    counts: WaiterCounts,
    key: KeyHash,
}

impl WaiterCounts {
    pub(super) fn count(&self) -> usize {
        self.0.lock().values().map(|count| *count as usize).sum()
    }

    /// Takes a slot for a key unless there are `max` already.
    pub(super) fn join(&self, key: KeyHash, max: u32) -> Option<WaiterSlot> {
        let mut waiting = self.0.lock();
        let count = waiting.get(&key).copied().unwrap_or(0);
        if count >= max {
            return None;
        }
        waiting.insert(key, count + 1);
        Some(WaiterSlot { counts: self.clone(), key })
    }
}

impl Drop for WaiterSlot {
    fn drop(&mut self) {
        let mut waiting = self.counts.0.lock();
        if let Some(count) = waiting.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.key);
            }
        }
    }
}
