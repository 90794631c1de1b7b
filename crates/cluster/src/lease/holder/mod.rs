//! A node's side of leasing for one key: what it holds, what it asks for, who waits.
//!
//! Pure: it is told what happens and when, and says what to send. At most one request is under way, so
//! whatever the store counts as out is what the answers told, plus what the last request may have been
//! granted. Callers the slice does not suffice for go along with the next request and are decided by the
//! store; those who come while it is under way wait for its answer.
//!
//! - this file: callers
//! - [`reply`]: the store's answers
//! - [`upkeep`]: what has to be done now and then

mod reply;
mod upkeep;

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::algorithm::Status;
use smallvec::SmallVec;

use super::demand::Demand;
use super::message::{Account, LeaseRequest, NodeId, Run, SPENT_WRAPS};
use super::terms::Leasable;
use super::turns::{Held, Turns};

/// How long a lease lasts in the store.
const LIFE: Duration = Duration::from_secs(2);
/// How long it lasts on the node, from the sending of the request: shorter, so that clocks of which one
/// runs 3 % faster do no harm.
const NODE_LIFE: Duration = Duration::from_micros(2_000_000 - 2_000_000 / 32);
/// Who has not been asked for so long gives back what it holds.
const IDLE: Duration = Duration::from_millis(200);
/// The most callers that wait for one key.
const MOST_WAITING: usize = 16_384;

/// Whoever waits for an answer.
pub(crate) trait Waiter {
    /// Whether it has given up.
    fn is_gone(&self) -> bool;
}

/// What a caller is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It has what it wanted.
    Taken(Slip),
    /// Not before so many nanoseconds have passed.
    NotBefore(u64),
    /// The store could not be asked.
    Failed,
}

/// What was taken, to be put back if it was not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slip {
    epoch: u64,
    /// The round it was taken in; `None` if the store gave it and has booked it as spent.
    round: Option<u64>,
    pub(crate) cost: u64,
}

impl Slip {
    /// For whoever only looked.
    pub(crate) const fn nothing() -> Self {
        Self { epoch: 0, round: None, cost: 0 }
    }

    /// What it is known by again, besides its cost, for who took it from the node's slice.
    pub(crate) const fn mark(&self) -> [u64; 2] {
        [
            self.epoch,
            match self.round {
                Some(round) => round + 1,
                None => 0,
            },
        ]
    }

    /// A part of it.
    pub(crate) fn part(&self, cost: u64) -> Self {
        Self { cost: cost.min(self.cost), ..*self }
    }

    /// What was taken under this mark.
    pub(crate) const fn marked([epoch, round]: [u64; 2], cost: u64) -> Self {
        Self { epoch, round: round.checked_sub(1), cost }
    }
}

/// What became of a caller the slice did not suffice for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Refused at once, for so many nanoseconds.
    NotBefore(u64),
    /// It will be told; this is to be sent.
    Send(LeaseRequest),
    /// It will be told.
    Waits,
    /// Too many wait already.
    Crowded,
}

/// What is to be done after an event: tell callers, and send a request.
#[derive(Debug)]
pub(crate) struct Effects<W> {
    pub(crate) told: Vec<(W, Outcome)>,
    pub(crate) request: Option<LeaseRequest>,
}

impl<W> Default for Effects<W> {
    fn default() -> Self {
        Self { told: Vec::new(), request: None }
    }
}

/// What a node holds of one key.
#[derive(Debug)]
pub(crate) struct Holder<W> {
    node: NodeId,
    epoch: u64,
    sequence: u64,
    /// Tokens that may be spent until `until`.
    slice: u64,
    until: Timestamp,
    /// More is fetched once no more than this is left.
    low: u64,
    /// All that was ever spent; wraps.
    spent: u64,
    /// Rises when the store is told what was spent: from then on it cannot be put back.
    round: u64,
    /// What is to be charged and the store has not confirmed.
    charges: u64,
    /// Whether the store may count something as out.
    owing: bool,
    flight: Option<Flight<W>>,
    waiting: VecDeque<(W, u64)>,
    refused: Option<Refused>,
    demand: Demand,
    /// Until when nothing is fetched ahead: the store had nothing to give.
    rests_until: Timestamp,
    used_at: Timestamp,
    /// What the store had left when it last answered, and the microseconds until all is there again.
    seen: (u64, u64),
    turns: Turns,
}

/// The request that is under way.
#[derive(Debug)]
struct Flight<W> {
    sequence: u64,
    sent: Timestamp,
    holding: u64,
    want: u64,
    charge: u64,
    takers: Vec<(W, u64)>,
}

/// What the store refused: who wants as much or more is refused here until then.
#[derive(Clone, Copy, Debug)]
struct Refused {
    cost: u64,
    until: Timestamp,
    /// When it can be had, as the store sees it.
    not_before: Timestamp,
}

impl<W: Waiter> Holder<W> {
    /// One that holds nothing. `epoch` is higher than that of any holder this node had of the key before.
    pub(crate) fn new(terms: &Leasable, node: NodeId, epoch: u64, now: Timestamp) -> Self {
        Self {
            node,
            epoch,
            sequence: 0,
            slice: 0,
            until: Timestamp::ZERO,
            low: 0,
            spent: 0,
            round: 0,
            charges: 0,
            owing: false,
            flight: None,
            waiting: VecDeque::new(),
            refused: None,
            demand: Demand::new(now, terms.slice_lasts()),
            rests_until: Timestamp::ZERO,
            used_at: now,
            seen: (terms.capacity(), 0),
            turns: Turns::default(),
        }
    }

    /// Takes from the slice if it suffices. The request, if any, fetches more ahead of need.
    #[inline]
    pub(crate) fn take(&mut self, cost: u64, now: Timestamp) -> Option<(Slip, Option<LeaseRequest>)> {
        if cost > self.slice || now >= self.until {
            return None;
        }
        self.demand.ask(cost);
        self.used_at = now;
        let slip = self.spend(cost);
        let more = self.slice <= self.low && self.flight.is_none() && now >= self.rests_until;
        Some((slip, if more { Some(self.fetch(now, self.slice, Vec::new())) } else { None }))
    }

    /// Refuses at once, for so many nanoseconds, what the store has just refused.
    pub(crate) fn refuse_at_once(&mut self, cost: u64, now: Timestamp) -> Option<u64> {
        let wait = self.refusal(cost, now)?;
        self.demand.ask(cost);
        self.used_at = now;
        Some(wait)
    }

    /// Decides for a caller the slice does not suffice for: at once if the store has just refused as much,
    /// else later, and the waiter will be told. `cost` must not exceed the limits' capacity.
    pub(crate) fn ask(&mut self, cost: u64, now: Timestamp, waiter: impl FnOnce() -> W) -> Asked {
        self.demand.ask(cost);
        self.used_at = now;
        if let Some(wait) = self.refusal(cost, now) {
            return Asked::NotBefore(wait);
        }
        if self.flight.is_none() {
            // A part of the cost stands in the way of the whole: the slice goes back with the request.
            return Asked::Send(self.fetch(now, 0, vec![(waiter(), cost)]));
        }
        if self.waiting.len() >= MOST_WAITING {
            return Asked::Crowded;
        }
        self.waiting.push_back((waiter(), cost));
        Asked::Waits
    }

    /// Puts back what was not needed, unless the store has been told that it was spent.
    pub(crate) fn give_back(&mut self, slip: Slip, now: Timestamp) {
        if slip.epoch == self.epoch && slip.round == Some(self.round) && now < self.until {
            self.slice = self.slice.saturating_add(slip.cost);
            self.spent = self.spent.wrapping_sub(slip.cost);
        }
    }

    /// Charges what a request cost beyond what it took, whether there is as much or not. The store is told
    /// with the next request, and again if that is not answered.
    pub(crate) const fn charge(&mut self, cost: u64) {
        self.charges = self.charges.saturating_add(cost);
    }

    /// What is left in all and when everything is available again, as far as is known here.
    #[inline]
    pub(crate) fn status(&self, terms: &Leasable) -> Status {
        let (free, reset) = self.seen;
        let remaining = free.saturating_add(self.slice).min(terms.capacity());
        Status { limit: terms.capacity(), remaining, reset: reset.saturating_mul(1_000) }
    }

    #[inline]
    const fn spend(&mut self, cost: u64) -> Slip {
        self.slice -= cost;
        self.spent = self.spent.wrapping_add(cost);
        Slip { epoch: self.epoch, round: Some(self.round), cost }
    }

    /// Whether `cost` is refused without asking, and for how many nanoseconds.
    #[inline]
    fn refusal(&self, cost: u64, now: Timestamp) -> Option<u64> {
        let refused = self.refused.filter(|refused| cost >= refused.cost && now < refused.until)?;
        let wait = refused.not_before.max(refused.until) - now;
        Some(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    /// What it holds now.
    pub(crate) fn held(&self, now: Timestamp) -> Held {
        let tokens = if now < self.until { self.slice } else { 0 };
        Held { keys: u64::from(tokens > 0), tokens }
    }

    /// What became of its slices since this was last asked.
    pub(crate) fn turns(&mut self) -> Turns {
        std::mem::take(&mut self.turns)
    }

    /// Asks for as much as the demand calls for.
    fn fetch(&mut self, now: Timestamp, keep: u64, takers: Vec<(W, u64)>) -> LeaseRequest {
        let want = self.demand.slice(now).saturating_sub(keep);
        self.request(now, keep, want, takers)
    }

    /// How things stand, as they would be told.
    #[cfg(test)]
    pub(crate) const fn account(&self) -> Account {
        Account {
            node: self.node,
            epoch: self.epoch,
            sequence: self.sequence,
            spent: self.spent % SPENT_WRAPS,
            holding: self.slice,
            want: 0,
            charge: 0,
        }
    }

    /// Tells the store how things stand; what is not kept goes back.
    fn request(&mut self, now: Timestamp, keep: u64, want: u64, takers: Vec<(W, u64)>) -> LeaseRequest {
        let before = self.slice;
        self.slice = if now < self.until { keep.min(before) } else { 0 };
        if self.slice < before {
            let became = if now < self.until { &mut self.turns.returned } else { &mut self.turns.expired };
            *became += 1;
        }
        self.round += 1;
        self.sequence += 1;
        self.owing = true;
        let (sequence, holding) = (self.sequence, self.slice);
        let (node, epoch, spent) = (self.node, self.epoch, self.spent % SPENT_WRAPS);
        // Numbers in the store have 53 bits; nothing that large is ever paid off.
        let charge = self.charges.min(1 << 50);
        let account = Account { node, epoch, sequence, spent, holding, want, charge };
        let takes = runs(&takers);
        self.flight = Some(Flight { sequence, sent: now, holding, want, charge, takers });
        LeaseRequest { account, takes, life: u64::try_from(LIFE.as_micros()).unwrap_or(u64::MAX) }
    }
}

/// Callers in line, gathered by what they want.
fn runs<W>(takers: &[(W, u64)]) -> SmallVec<[Run; 2]> {
    let mut runs: SmallVec<[Run; 2]> = SmallVec::new();
    for (_, cost) in takers {
        match runs.last_mut() {
            Some(run) if run.cost == *cost => run.count += 1,
            _ => runs.push(Run { cost: *cost, count: 1 }),
        }
    }
    runs
}
