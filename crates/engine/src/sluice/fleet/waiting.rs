//! How many wait for a key that the fleet counts.
//!
//! They wait in no line: the store tells each when to ask again, and who asks first then is first. A line
//! of this process alone would not be one of the fleet.

use std::sync::Arc;

use parking_lot::Mutex;
use rapidhash::RapidHashMap;

use crate::table::KeyHash;

/// Counts who waits, by key.
#[derive(Clone, Default)]
pub(super) struct Waiting(Arc<Mutex<RapidHashMap<KeyHash, u32>>>);

/// One of those who wait; gone when dropped.
pub(super) struct Place {
    waiting: Waiting,
    key: KeyHash,
}

impl Waiting {
    pub(super) fn count(&self) -> usize {
        self.0.lock().values().map(|count| *count as usize).sum()
    }

    /// Joins those who wait for a key, unless there are `most` already.
    pub(super) fn join(&self, key: KeyHash, most: u32) -> Option<Place> {
        let mut waiting = self.0.lock();
        let present = waiting.get(&key).copied().unwrap_or(0);
        if present >= most {
            return None;
        }
        waiting.insert(key, present + 1);
        Some(Place { waiting: self.clone(), key })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = self.waiting.0.lock();
        if let Some(present) = waiting.get_mut(&self.key) {
            *present -= 1;
            if *present == 0 {
                waiting.remove(&self.key);
            }
        }
    }
}
