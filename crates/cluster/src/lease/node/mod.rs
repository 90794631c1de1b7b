//! Node side of leasing for one key: the slice it holds, its requests, and the waiting callers.
//!
//! Pure: events and times are passed in, requests to send are returned. At most one request is in flight, so
//! the store's outstanding amount equals that of the replies, plus the possible grant of the last request.
//! Callers for which the slice does not suffice go along with the next request and are decided by the
//! store; those that arrive while it is in flight wait for its reply.
//!
//! - this file: callers
//! - [`reply`]: the store's replies
//! - [`renewal`]: lease renewal and maintenance

mod renewal;
mod reply;

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::algorithm::Status;
use smallvec::SmallVec;

use super::demand::Demand;
use super::message::{Account, CostRun, LeaseRequest, NodeId, SPENT_MODULUS};
use super::params::LeaseParams;
use super::stats::{LeaseHoldings, LeaseStats};

/// Lease duration in the store.
const LEASE_DURATION: Duration = Duration::from_secs(2);
/// Lease duration on the node, from the sending of the request: shorter, to tolerate clocks that differ
/// in rate by 3 %.
const NODE_LEASE_DURATION: Duration = Duration::from_micros(2_000_000 - 2_000_000 / 32);
/// A key not used for this long returns its slice.
const IDLE_TIMEOUT: Duration = Duration::from_millis(200);
/// Maximum callers waiting for one key.
const MAX_WAITERS: usize = 16_384;

/// A caller waiting for a reply.
pub(crate) trait Waiter {
    /// True if it has given up.
    fn is_cancelled(&self) -> bool;
}

/// Result for a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseOutcome {
    /// The cost was taken.
    Acquired(LeaseReceipt),
    /// Refused for so many nanoseconds.
    NotBefore(u64),
    /// The store could not be reached.
    Failed,
}

/// Receipt of taken tokens, with which they can be returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseReceipt {
    epoch: u64,
    /// The round it was taken in; `None` if the store decided and has recorded it as spent.
    round: Option<u64>,
    pub(crate) cost: u64,
}

impl LeaseReceipt {
    /// The receipt of a zero-cost check.
    pub(crate) const fn empty() -> Self {
        Self { epoch: 0, round: None, cost: 0 }
    }

    /// Identifies the receipt, together with its cost, for tokens taken from the node's slice.
    pub(crate) const fn token(&self) -> [u64; 2] {
        [
            self.epoch,
            match self.round {
                Some(round) => round + 1,
                None => 0,
            },
        ]
    }

    /// A part of the receipt.
    pub(crate) fn partial(&self, cost: u64) -> Self {
        Self { cost: cost.min(self.cost), ..*self }
    }

    /// Rebuilds a receipt from its token.
    pub(crate) const fn from_token([epoch, round]: [u64; 2], cost: u64) -> Self {
        Self { epoch, round: round.checked_sub(1), cost }
    }
}

/// Result for a caller for which the slice did not suffice.
#[derive(Debug)]
pub(crate) enum EnqueueResult {
    /// Refused at once, for so many nanoseconds.
    NotBefore(u64),
    /// Queued; send this request.
    Send(LeaseRequest),
    /// Queued; the waiter will be notified.
    Queued,
    /// Too many callers wait already.
    Full,
}

/// Actions after an event: callers to notify, and a request to send.
#[derive(Debug)]
pub(crate) struct Effects<W> {
    pub(crate) notify: Vec<(W, LeaseOutcome)>,
    pub(crate) request: Option<LeaseRequest>,
}

impl<W> Default for Effects<W> {
    fn default() -> Self {
        Self { notify: Vec::new(), request: None }
    }
}

/// Lease state of a node for one key.
#[derive(Debug)]
pub(crate) struct LeaseHolder<W> {
    node: NodeId,
    epoch: u64,
    sequence: u64,
    /// Tokens that may be spent until `expires_at`.
    slice: u64,
    expires_at: Timestamp,
    /// More is fetched once no more than this is left.
    low_watermark: u64,
    /// Total ever spent; wraps.
    spent: u64,
    /// Incremented when spending is reported to the store: reported tokens cannot be returned.
    round: u64,
    /// Charges that the store has not confirmed yet.
    charges: u64,
    /// True if the store may count tokens as outstanding.
    has_outstanding: bool,
    in_flight: Option<InFlightRequest<W>>,
    waiters: VecDeque<(W, u64)>,
    cached_refusal: Option<CachedRefusal>,
    demand: Demand,
    /// No prefetch before this time: the store had nothing to grant.
    prefetch_paused_until: Timestamp,
    last_used: Timestamp,
    /// Available tokens in the store at its last reply, and the microseconds until all are available again.
    store_status: (u64, u64),
    stats: LeaseStats,
}

/// The request in flight.
#[derive(Debug)]
struct InFlightRequest<W> {
    sequence: u64,
    sent: Timestamp,
    holding: u64,
    want: u64,
    charge: u64,
    takers: Vec<(W, u64)>,
}

/// A refusal of the store: an equal or higher cost is refused locally until then.
#[derive(Clone, Copy, Debug)]
struct CachedRefusal {
    cost: u64,
    until: Timestamp,
    /// Time at which the cost fits, according to the store.
    not_before: Timestamp,
}

impl<W: Waiter> LeaseHolder<W> {
    /// Creates an empty holder. `epoch` is higher than that of any earlier holder of this node and key.
    pub(crate) fn new(params: &LeaseParams, node: NodeId, epoch: u64, now: Timestamp) -> Self {
        Self {
            node,
            epoch,
            sequence: 0,
            slice: 0,
            expires_at: Timestamp::ZERO,
            low_watermark: 0,
            spent: 0,
            round: 0,
            charges: 0,
            has_outstanding: false,
            in_flight: None,
            waiters: VecDeque::new(),
            cached_refusal: None,
            demand: Demand::new(now, params.slice_duration()),
            prefetch_paused_until: Timestamp::ZERO,
            last_used: now,
            store_status: (params.capacity(), 0),
            stats: LeaseStats::default(),
        }
    }

    /// Takes from the slice if it suffices. The request, if any, prefetches the next slice.
    #[inline]
    pub(crate) fn take(&mut self, cost: u64, now: Timestamp) -> Option<(LeaseReceipt, Option<LeaseRequest>)> {
        if cost > self.slice || now >= self.expires_at {
            return None;
        }
        self.demand.record(cost);
        self.last_used = now;
        let receipt = self.spend(cost);
        let more = self.slice <= self.low_watermark && self.in_flight.is_none() && now >= self.prefetch_paused_until;
        Some((receipt, if more { Some(self.request_slice(now, self.slice, Vec::new())) } else { None }))
    }

    /// Refuses at once, for so many nanoseconds, a cost that the store has just refused.
    pub(crate) fn try_refuse(&mut self, cost: u64, now: Timestamp) -> Option<u64> {
        let wait = self.cached_wait(cost, now)?;
        self.demand.record(cost);
        self.last_used = now;
        Some(wait)
    }

    /// Handles a caller for which the slice does not suffice: refused at once if the store has just refused as
    /// much, else queued until the waiter is notified. `cost` must not exceed the limits' capacity.
    pub(crate) fn enqueue(&mut self, cost: u64, now: Timestamp, waiter: impl FnOnce() -> W) -> EnqueueResult {
        self.demand.record(cost);
        self.last_used = now;
        if let Some(wait) = self.cached_wait(cost, now) {
            return EnqueueResult::NotBefore(wait);
        }
        if self.in_flight.is_none() {
            // A partial slice could block the whole cost: it is returned with the request.
            return EnqueueResult::Send(self.request_slice(now, 0, vec![(waiter(), cost)]));
        }
        if self.waiters.len() >= MAX_WAITERS {
            return EnqueueResult::Full;
        }
        self.waiters.push_back((waiter(), cost));
        EnqueueResult::Queued
    }

    /// Returns unused tokens, unless their spending was reported to the store.
    pub(crate) fn return_tokens(&mut self, receipt: LeaseReceipt, now: Timestamp) {
        if receipt.epoch == self.epoch && receipt.round == Some(self.round) && now < self.expires_at {
            self.slice = self.slice.saturating_add(receipt.cost);
            self.spent = self.spent.wrapping_sub(receipt.cost);
        }
    }

    /// Charges the cost of a request beyond its estimate, available or not. Reported to the store
    /// with the next request, and again if that gets no reply.
    pub(crate) const fn charge(&mut self, cost: u64) {
        self.charges = self.charges.saturating_add(cost);
    }

    /// The total remaining amount and the time to full, as known locally.
    #[inline]
    pub(crate) fn status(&self, params: &LeaseParams) -> Status {
        let (free, reset) = self.store_status;
        let remaining = free.saturating_add(self.slice).min(params.capacity());
        Status { limit: params.capacity(), remaining, reset: reset.saturating_mul(1_000) }
    }

    #[inline]
    const fn spend(&mut self, cost: u64) -> LeaseReceipt {
        self.slice -= cost;
        self.spent = self.spent.wrapping_add(cost);
        LeaseReceipt { epoch: self.epoch, round: Some(self.round), cost }
    }

    /// If `cost` is refused locally, the nanoseconds to wait.
    #[inline]
    fn cached_wait(&self, cost: u64, now: Timestamp) -> Option<u64> {
        let refused = self.cached_refusal.filter(|refused| cost >= refused.cost && now < refused.until)?;
        let wait = refused.not_before.max(refused.until) - now;
        Some(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Its current holdings.
    pub(crate) fn holdings(&self, now: Timestamp) -> LeaseHoldings {
        let tokens = if now < self.expires_at { self.slice } else { 0 };
        LeaseHoldings { keys: u64::from(tokens > 0), tokens }
    }

    /// Takes the slice statistics since the last call.
    pub(crate) fn take_stats(&mut self) -> LeaseStats {
        std::mem::take(&mut self.stats)
    }

    /// Requests a slice sized by demand.
    fn request_slice(&mut self, now: Timestamp, keep: u64, takers: Vec<(W, u64)>) -> LeaseRequest {
        let want = self.demand.slice(now).saturating_sub(keep);
        self.build_request(now, keep, want, takers)
    }

    /// The account as it would be reported.
    #[cfg(test)]
    pub(crate) const fn account(&self) -> Account {
        Account {
            node: self.node,
            epoch: self.epoch,
            sequence: self.sequence,
            spent: self.spent % SPENT_MODULUS,
            holding: self.slice,
            want: 0,
            charge: 0,
        }
    }

    /// Builds a request that reports the account; tokens beyond `keep` are returned.
    fn build_request(&mut self, now: Timestamp, keep: u64, want: u64, takers: Vec<(W, u64)>) -> LeaseRequest {
        let before = self.slice;
        self.slice = if now < self.expires_at { keep.min(before) } else { 0 };
        if self.slice < before {
            let counter = if now < self.expires_at { &mut self.stats.returned } else { &mut self.stats.expired };
            *counter += 1;
        }
        self.round += 1;
        self.sequence += 1;
        self.has_outstanding = true;
        let (sequence, holding) = (self.sequence, self.slice);
        let (node, epoch, spent) = (self.node, self.epoch, self.spent % SPENT_MODULUS);
        // Numbers in the store have 53 bits; a larger debt is never paid off anyway.
        let charge = self.charges.min(1 << 50);
        let account = Account { node, epoch, sequence, spent, holding, want, charge };
        let takes = group_by_cost(&takers);
        self.in_flight = Some(InFlightRequest { sequence, sent: now, holding, want, charge, takers });
        LeaseRequest { account, takes, duration: u64::try_from(LEASE_DURATION.as_micros()).unwrap_or(u64::MAX) }
    }
}

/// Groups queued callers into runs of equal cost.
fn group_by_cost<W>(takers: &[(W, u64)]) -> SmallVec<[CostRun; 2]> {
    let mut runs: SmallVec<[CostRun; 2]> = SmallVec::new();
    for (_, cost) in takers {
        match runs.last_mut() {
            Some(run) if run.cost == *cost => run.count += 1,
            _ => runs.push(CostRun { cost: *cost, count: 1 }),
        }
    }
    runs
}
