//! Lease statistics.
//!
//! A holder counts under the lock it is used under anyway; the table collects during its
//! maintenance tick. The request path adds nothing.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// Slice events since the last collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseStats {
    /// Granted to a key without a slice.
    pub(crate) acquired: u32,
    /// Extended, with or without more tokens.
    pub(crate) renewed: u32,
    /// Returned unspent, in whole or in part.
    pub(crate) returned: u32,
    /// Expired unspent.
    pub(crate) expired: u32,
}

impl AddAssign for LeaseStats {
    fn add_assign(&mut self, other: Self) {
        for (own, more) in [
            (&mut self.acquired, other.acquired),
            (&mut self.renewed, other.renewed),
            (&mut self.returned, other.returned),
            (&mut self.expired, other.expired),
        ] {
            *own = own.saturating_add(more);
        }
    }
}

/// Current holdings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseHoldings {
    /// Keys with a slice.
    pub(crate) keys: u64,
    /// Unspent tokens of all slices.
    pub(crate) tokens: u64,
}

impl AddAssign for LeaseHoldings {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

/// Lease counters of a process, collected from its tables.
#[derive(Debug, Default)]
pub(crate) struct LeaseCounters {
    pub(crate) keys: AtomicU64,
    pub(crate) tokens: AtomicU64,
    pub(crate) acquired: AtomicU64,
    pub(crate) renewed: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) expired: AtomicU64,
}

impl LeaseCounters {
    /// Adds slice events.
    pub(crate) fn add(&self, stats: LeaseStats) {
        for (counter, count) in [
            (&self.acquired, stats.acquired),
            (&self.renewed, stats.renewed),
            (&self.returned, stats.returned),
            (&self.expired, stats.expired),
        ] {
            if count > 0 {
                counter.fetch_add(count.into(), Ordering::Relaxed);
            }
        }
    }

    /// Sets the holdings of all tables together.
    pub(crate) fn set_holdings(&self, holdings: LeaseHoldings) {
        self.keys.store(holdings.keys, Ordering::Relaxed);
        self.tokens.store(holdings.tokens, Ordering::Relaxed);
    }
}
