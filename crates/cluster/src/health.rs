//! How the store is doing, as this process sees it.
//!
//! Counters are written by the driver and read by whoever asks: a snapshot costs some loads and no waiting.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::{StoreError, StoreErrorKind};
use crate::lease::LeaseCounters;

/// A snapshot of how the store is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether the store is asked.
    pub state: State,
    /// Decisions that wanted the store.
    pub asks: u64,
    /// Calls that were sent for them: each carries many.
    pub calls: u64,
    /// Asks that passed their deadline.
    pub timeouts: u64,
    /// Asks that failed because too many waited.
    pub overloads: u64,
    /// Asks that failed at once because the store was not asked.
    pub refusals: u64,
    /// Answers that came when nobody waited for them any more. What they took was given back.
    pub late_answers: u64,
    /// Failed calls by what they met; kinds that never came are absent.
    pub failures: BTreeMap<StoreErrorKind, u64>,
    /// How often the breaker opened.
    pub breaker_openings: u64,
    /// How often a connection was made again.
    pub reconnects: u64,
    /// Foreign or broken values at our keys that were replaced.
    pub healed: u64,
    /// How many processes share the store, as last known.
    pub live_nodes: Option<u32>,
    /// What this process has leased.
    pub leases: Leases,
    /// What is wrong with how the store is set up.
    pub warnings: Vec<String>,
    /// What the last failed call met.
    pub last_error: Option<String>,
}

/// What this process has leased: slices of limits that it decides from by itself. Looked at every fifty
/// milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leases {
    /// Keys that a slice is held of.
    pub keys: u64,
    /// What is unspent of these slices.
    pub tokens: u64,
    /// Slices that came to a key that held none.
    pub taken: u64,
    /// Slices that were held and last longer since, with more in them or without.
    pub renewed: u64,
    /// Slices that went back unspent, in whole or in part.
    pub returned: u64,
    /// Slices that ended before they were spent. What was left of them counts as spent.
    pub expired: u64,
}

/// Whether the store is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The first connection is being made.
    Connecting,
    /// It answers.
    Connected,
    /// It failed, and is only probed.
    Degraded {
        /// Since when.
        since: Instant,
    },
    /// The driver has been closed.
    Closed,
}

/// What the driver counts.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) asks: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) overloads: AtomicU64,
    pub(crate) refusals: AtomicU64,
    pub(crate) late_answers: AtomicU64,
    pub(crate) breaker_openings: AtomicU64,
    pub(crate) reconnects: AtomicU64,
    pub(crate) healed: AtomicU64,
    pub(crate) leases: Arc<LeaseCounters>,
    failures: [AtomicU64; StoreErrorKind::ALL.len()],
    /// Zero stands for unknown: this process itself is one.
    live_nodes: AtomicU32,
    remarks: Mutex<Remarks>,
}

#[derive(Debug, Default)]
struct Remarks {
    /// By the server they are about.
    warnings: BTreeMap<String, Vec<String>>,
    last_error: Option<StoreError>,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, many: u64) {
        counter.fetch_add(many, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, error: &StoreError) {
        Self::add(&self.failures[error.kind as usize], 1);
        self.remarks.lock().last_error = Some(error.clone());
    }

    /// Replaces what was remarked about `server`.
    pub(crate) fn warn(&self, server: String, warnings: Vec<String>) {
        let mut remarks = self.remarks.lock();
        if warnings.is_empty() {
            remarks.warnings.remove(&server);
        } else {
            remarks.warnings.insert(server, warnings);
        }
    }

    pub(crate) fn learn_live_nodes(&self, nodes: u32) {
        self.live_nodes.store(nodes, Ordering::Relaxed);
    }

    pub(crate) fn live_nodes(&self) -> Option<u32> {
        Some(self.live_nodes.load(Ordering::Relaxed)).filter(|nodes| *nodes > 0)
    }

    fn leases(&self, state: State) -> Leases {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let LeaseCounters { keys, tokens, taken, renewed, returned, expired } = &*self.leases;
        // Nobody looks any more once the driver is closed, and everything has gone back.
        let now = |counter| if state == State::Closed { 0 } else { read(counter) };
        Leases {
            keys: now(keys),
            tokens: now(tokens),
            taken: read(taken),
            renewed: read(renewed),
            returned: read(returned),
            expired: read(expired),
        }
    }

    pub(crate) fn snapshot(&self, state: State) -> Health {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failures = StoreErrorKind::ALL.iter().zip(&self.failures);
        let remarks = self.remarks.lock();
        let told = |(server, texts): (&String, &Vec<String>)| {
            texts.iter().map(|text| format!("{server}: {text}")).collect::<Vec<_>>()
        };
        Health {
            state,
            asks: read(&self.asks),
            calls: read(&self.calls),
            timeouts: read(&self.timeouts),
            overloads: read(&self.overloads),
            refusals: read(&self.refusals),
            late_answers: read(&self.late_answers),
            failures: failures.map(|(kind, n)| (*kind, read(n))).filter(|(_, n)| *n > 0).collect(),
            breaker_openings: read(&self.breaker_openings),
            reconnects: read(&self.reconnects),
            healed: read(&self.healed),
            live_nodes: self.live_nodes(),
            leases: self.leases(state),
            warnings: remarks.warnings.iter().flat_map(told).collect(),
            last_error: remarks.last_error.as_ref().map(ToString::to_string),
        }
    }
}

/// Counters of one driver, shared by its parts.
pub(crate) type SharedCounters = Arc<Counters>;
