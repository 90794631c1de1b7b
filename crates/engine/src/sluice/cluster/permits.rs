//! Counter of store permits held by this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Permit counter of one rule.
#[derive(Clone, Default)]
pub(super) struct PermitCounter(Arc<AtomicU64>);

/// Permits counted as held until this is dropped.
pub(in crate::sluice) struct CountedPermits {
    counter: PermitCounter,
    count: u64,
}

impl PermitCounter {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts that many more permits as held.
    pub(super) fn take(&self, count: u64) -> CountedPermits {
        self.0.fetch_add(count, Ordering::Relaxed);
        CountedPermits { counter: self.clone(), count }
    }
}

impl Drop for CountedPermits {
    fn drop(&mut self) {
        self.counter.0.fetch_sub(self.count, Ordering::Relaxed);
    }
}
