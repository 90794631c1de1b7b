//! Store health as seen by this process.
//!
//! The client writes the counters; a snapshot costs a few atomic loads and never blocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::{StoreError, StoreErrorKind};
use crate::lease::LeaseCounters;

/// Health snapshot of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Connection state.
    pub state: StoreState,
    /// Decisions that needed the store.
    pub decisions: u64,
    /// Calls sent for them; each carries many decisions.
    pub calls: u64,
    /// Decisions that passed their deadline.
    pub timeouts: u64,
    /// Decisions that failed because the call queue was full.
    pub overloads: u64,
    /// Decisions that failed at once because the breaker was open.
    pub refusals: u64,
    /// Replies that arrived after their caller was gone. They were undone.
    pub late_replies: u64,
    /// Failed calls by error kind; kinds with no failures are absent.
    pub failures: BTreeMap<StoreErrorKind, u64>,
    /// Number of times the breaker opened.
    pub breaker_openings: u64,
    /// Number of reconnects.
    pub reconnects: u64,
    /// Foreign or corrupt values replaced at our keys.
    pub replaced_values: u64,
    /// Number of processes that share the store, as last known.
    pub live_nodes: Option<u32>,
    /// Leases held by this process.
    pub leases: Leases,
    /// Warnings about the server configuration.
    pub warnings: Vec<String>,
    /// Error of the last failed call.
    pub last_error: Option<String>,
}

/// Leases of this process: slices of limits from which it decides locally. Updated every fifty
/// milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leases {
    /// Keys with a leased slice.
    pub keys: u64,
    /// Unspent tokens of these slices.
    pub tokens: u64,
    /// Slices granted to a key without one.
    pub acquired: u64,
    /// Slices extended, with or without more tokens.
    pub renewed: u64,
    /// Slices returned unspent, in whole or in part.
    pub returned: u64,
    /// Slices that expired unspent. The rest of them counts as spent.
    pub expired: u64,
}

/// Connection state of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    /// The first connection is being made.
    Connecting,
    /// Connected and answering.
    Connected,
    /// The breaker is open; the store is only probed.
    Degraded {
        /// Time the breaker opened.
        since: Instant,
    },
    /// The client has been closed.
    Closed,
}

/// Counters of the store client.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) decisions: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) overloads: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) late_replies: AtomicU64,
    pub(crate) breaker_openings: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    pub(crate) replaced: AtomicU64,
    pub(crate) leases: Arc<LeaseCounters>,
    failures: [AtomicU64; StoreErrorKind::ALL.len()],
    /// Zero means unknown: this process itself counts as one.
    live_nodes: AtomicU32,
    details: Mutex<HealthDetails>,
}

#[derive(Debug, Default)]
struct HealthDetails {
    /// By server.
    warnings: BTreeMap<String, Vec<String>>,
    last_error: Option<StoreError>,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn record_failure(&self, error: &StoreError) {
        Self::add(&self.failures[error.kind as usize], 1);
        self.details.lock().last_error = Some(error.clone());
    }

    /// Replaces the warnings about `server`.
    pub(crate) fn set_warnings(&self, server: String, warnings: Vec<String>) {
        let mut details = self.details.lock();
        if warnings.is_empty() {
            details.warnings.remove(&server);
        } else {
            details.warnings.insert(server, warnings);
        }
    }

    pub(crate) fn set_live_nodes(&self, nodes: u32) {
        self.live_nodes.store(nodes, Ordering::Relaxed);
    }

    pub(crate) fn live_nodes(&self) -> Option<u32> {
        Some(self.live_nodes.load(Ordering::Relaxed)).filter(|nodes| *nodes > 0)
    }

    fn leases(&self, state: StoreState) -> Leases {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let LeaseCounters { keys, tokens, acquired, renewed, returned, expired } = &*self.leases;
        // After close nothing updates these, and every slice has been returned.
        let now = |counter| if state == StoreState::Closed { 0 } else { read(counter) };
        Leases {
            keys: now(keys),
            tokens: now(tokens),
            acquired: read(acquired),
            renewed: read(renewed),
            returned: read(returned),
            expired: read(expired),
        }
    }

    pub(crate) fn snapshot(&self, state: StoreState) -> Health {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failures = StoreErrorKind::ALL.iter().zip(&self.failures);
        let details = self.details.lock();
        let format = |(server, texts): (&String, &Vec<String>)| {
            texts.iter().map(|text| format!("{server}: {text}")).collect::<Vec<_>>()
        };
        Health {
            state,
            decisions: read(&self.decisions),
            calls: read(&self.calls),
            timeouts: read(&self.timeouts),
            overloads: read(&self.overloads),
            refusals: read(&self.refusals),
            late_replies: read(&self.late_replies),
            failures: failures.map(|(kind, n)| (*kind, read(n))).filter(|(_, n)| *n > 0).collect(),
            breaker_openings: read(&self.breaker_openings),
            reconnects: read(&self.reconnects),
            replaced_values: read(&self.replaced),
            live_nodes: self.live_nodes(),
            leases: self.leases(state),
            warnings: details.warnings.iter().flat_map(format).collect(),
            last_error: details.last_error.as_ref().map(ToString::to_string),
        }
    }
}

/// Counters of one client, shared by its modules.
pub(crate) type SharedCounters = Arc<Counters>;
