//! How many of the store's permits this process has out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts permits of one rule.
#[derive(Clone, Default)]
pub(super) struct Permits(Arc<AtomicU64>);

/// Permits that are out until this is dropped.
pub(in crate::sluice) struct Out {
    permits: Permits,
    count: u64,
}

impl Permits {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// So many more are out.
    pub(super) fn take(&self, count: u64) -> Out {
        self.0.fetch_add(count, Ordering::Relaxed);
        Out { permits: self.clone(), count }
    }
}

impl Drop for Out {
    fn drop(&mut self) {
        self.permits.0.fetch_sub(self.count, Ordering::Relaxed);
    }
}
