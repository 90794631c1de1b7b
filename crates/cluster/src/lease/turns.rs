//! What became of slices, counted.
//!
//! A holder counts for itself, under the lock it is used under anyway; its table collects when it looks after its
//! keys. Nothing is added on a caller's way.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// What became of slices, since it was last collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turns {
    /// Came to a key that held none.
    pub(crate) taken: u32,
    /// Were held and last longer now, with more in them or without.
    pub(crate) renewed: u32,
    /// Went back unspent, in whole or in part.
    pub(crate) returned: u32,
    /// Ended before they were spent.
    pub(crate) expired: u32,
}

impl AddAssign for Turns {
    fn add_assign(&mut self, other: Self) {
        for (own, more) in [
            (&mut self.taken, other.taken),
            (&mut self.renewed, other.renewed),
            (&mut self.returned, other.returned),
            (&mut self.expired, other.expired),
        ] {
            *own = own.saturating_add(more);
        }
    }
}

/// What is held now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// Keys with a slice.
    pub(crate) keys: u64,
    /// What is unspent of all slices.
    pub(crate) tokens: u64,
}

impl AddAssign for Held {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.tokens = self.tokens.saturating_add(other.tokens);
    }
}

/// The leases of a process: what tables have collected.
#[derive(Debug, Default)]
pub(crate) struct LeaseCounters {
    pub(crate) keys: AtomicU64,
    pub(crate) tokens: AtomicU64,
    pub(crate) taken: AtomicU64,
    pub(crate) renewed: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) expired: AtomicU64,
}

impl LeaseCounters {
    /// Adds what became of slices.
    pub(crate) fn add(&self, turns: Turns) {
        for (counter, many) in [
            (&self.taken, turns.taken),
            (&self.renewed, turns.renewed),
            (&self.returned, turns.returned),
            (&self.expired, turns.expired),
        ] {
            if many > 0 {
                counter.fetch_add(many.into(), Ordering::Relaxed);
            }
        }
    }

    /// Notes what all tables hold together.
    pub(crate) fn hold(&self, held: Held) {
        self.keys.store(held.keys, Ordering::Relaxed);
        self.tokens.store(held.tokens, Ordering::Relaxed);
    }
}
