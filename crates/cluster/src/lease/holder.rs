//! A node's side of leasing for one key: what it holds, what it asks for, who waits.
//!
//! Pure: it is told what happens and when, and says what to send. At most one request is under way, so
//! whatever the store counts as out is what the answers told, plus what the last request may have been
//! granted. Callers the slice does not suffice for go along with the next request and are decided by the
//! store; those who come while it is under way wait for its answer.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_engine::Timestamp;
use smallvec::SmallVec;

use super::demand::Demand;
use super::message::{Account, LeaseAnswer, LeaseReply, LeaseRequest, NodeId, Run};
use super::terms::Leasable;

/// How long a lease lasts in the store.
pub(crate) const LIFE: Duration = Duration::from_secs(2);
/// How long it lasts on the node, from the sending of the request: shorter, so that clocks of which one
/// runs 3 % faster do no harm.
pub(crate) const NODE_LIFE: Duration = Duration::from_micros(2_000_000 - 2_000_000 / 32);
/// Who has not been asked for so long gives back what it holds.
pub(crate) const IDLE: Duration = Duration::from_millis(200);
/// The most callers that wait for one key.
pub(crate) const MOST_WAITING: usize = 16_384;

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

/// What was taken from a slice, to be put back if it was not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slip {
    epoch: u64,
    /// The round it was taken in; `None` if the store gave it and has booked it as spent.
    round: Option<u64>,
    pub(crate) cost: u64,
}

impl Slip {
    /// Whether it came from the node's slice, and not from the store itself.
    pub(crate) const fn is_from_slice(&self) -> bool {
        self.round.is_some()
    }
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
    /// All that was ever spent.
    spent: u64,
    /// Rises when the store is told what was spent: from then on it cannot be put back.
    round: u64,
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
}

/// The request that is under way.
#[derive(Debug)]
struct Flight<W> {
    sequence: u64,
    sent: Timestamp,
    holding: u64,
    want: u64,
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
            owing: false,
            flight: None,
            waiting: VecDeque::new(),
            refused: None,
            demand: Demand::new(now, terms.slice_lasts()),
            rests_until: Timestamp::ZERO,
            used_at: now,
            seen: (0, 0),
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
            self.slice += slip.cost;
            self.spent -= slip.cost;
        }
    }

    /// The store has answered request `sequence`.
    pub(crate) fn answered(
        &mut self,
        terms: &Leasable,
        sequence: u64,
        reply: LeaseReply,
        now: Timestamp,
    ) -> Effects<W> {
        let LeaseReply::Done(answer) = reply else { return self.failed(sequence, now) };
        let Some(flight) = self.flight.take_if(|flight| flight.sequence == sequence) else {
            return Effects::default();
        };
        self.receive(&flight, &answer, now);
        let mut told = self.told_by(terms, flight, &answer, now);
        let served = self.serve_waiting(now, &mut told);
        let request = self.next_request(now, served);
        Effects { told, request }
    }

    /// Request `sequence` was not answered in time and will not be heeded if it is.
    pub(crate) fn failed(&mut self, sequence: u64, now: Timestamp) -> Effects<W> {
        let Some(flight) = self.flight.take_if(|flight| flight.sequence == sequence) else {
            return Effects::default();
        };
        let told = flight.takers.into_iter().map(|(waiter, _)| (waiter, Outcome::Failed)).collect();
        let request = self.next_request(now, false);
        Effects { told, request }
    }

    /// To be called every now and then: gives back what is not needed and renews what would run out.
    pub(crate) fn tick(&mut self, now: Timestamp) -> Option<LeaseRequest> {
        if self.flight.is_some() {
            return None;
        }
        if now >= self.until && self.slice > 0 {
            self.forget();
        }
        let wanted = self.demand.slice(now);
        let idle = now - self.used_at >= IDLE;
        if idle && self.owing {
            // A store that could not be told for so long has counted everything as spent by itself.
            self.owing = now - self.used_at < IDLE + LIFE;
            return self.owing.then(|| self.request(now, 0, 0, Vec::new()));
        }
        let surplus = self.slice > 16 && self.slice / 4 > wanted;
        let ending = self.slice > 0 && self.until - now < NODE_LIFE / 2;
        (surplus || ending).then(|| self.request(now, self.slice.min(wanted.saturating_mul(2)), 0, Vec::new()))
    }

    /// The last word: gives everything back. It must not be used any more.
    pub(crate) fn close(&mut self, now: Timestamp) -> Effects<W> {
        let takers = self.flight.take().map_or_else(Vec::new, |flight| flight.takers);
        let told = takers.into_iter().chain(std::mem::take(&mut self.waiting));
        let told = told.map(|(waiter, _)| (waiter, Outcome::Failed)).collect();
        let request = if self.owing { Some(self.request(now, 0, 0, Vec::new())) } else { None };
        Effects { told, request }
    }

    /// Whether nobody would notice if it were forgotten: nobody waits, and nothing is held or owed.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        self.flight.is_none() && !self.owing && now - self.used_at >= IDLE
    }

    /// Whether it can make room for another key: nobody waits for it.
    pub(crate) const fn is_alone(&self) -> bool {
        self.flight.is_none()
    }

    /// What may be left in all, and the microseconds until everything is available again, as far as is
    /// known here.
    pub(crate) const fn seen(&self) -> (u64, u64) {
        (self.seen.0.saturating_add(self.slice), self.seen.1)
    }

    #[inline]
    fn spend(&mut self, cost: u64) -> Slip {
        self.slice -= cost;
        self.spent += cost;
        Slip { epoch: self.epoch, round: Some(self.round), cost }
    }

    /// The lease has ended: whatever is left of it counts as spent in the store, or soon will.
    const fn forget(&mut self) {
        self.slice = 0;
        self.low = 0;
        self.round += 1;
    }

    /// Whether `cost` is refused without asking, and for how many nanoseconds.
    #[inline]
    fn refusal(&self, cost: u64, now: Timestamp) -> Option<u64> {
        let refused = self.refused.filter(|refused| cost >= refused.cost && now < refused.until)?;
        let wait = refused.not_before.max(refused.until) - now;
        Some(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Asks for as much as the demand calls for.
    fn fetch(&mut self, now: Timestamp, keep: u64, takers: Vec<(W, u64)>) -> LeaseRequest {
        let want = self.demand.slice(now).saturating_sub(keep);
        self.request(now, keep, want, takers)
    }

    /// Tells the store how things stand; what is not kept goes back.
    fn request(&mut self, now: Timestamp, keep: u64, want: u64, takers: Vec<(W, u64)>) -> LeaseRequest {
        self.slice = if now < self.until { keep.min(self.slice) } else { 0 };
        self.round += 1;
        self.sequence += 1;
        self.owing = true;
        let (sequence, holding) = (self.sequence, self.slice);
        let (node, epoch, spent) = (self.node, self.epoch, self.spent);
        let account = Account { node, epoch, sequence, spent, holding, want };
        let takes = runs(&takers);
        self.flight = Some(Flight { sequence, sent: now, holding, want, takers });
        LeaseRequest { account: Some(account), takes, life: micros(LIFE) }
    }

    /// Takes over what was granted, for as long as it lasts.
    fn receive(&mut self, flight: &Flight<W>, answer: &LeaseAnswer, now: Timestamp) {
        let until = flight.sent + NODE_LIFE;
        self.seen = (answer.free, answer.reset);
        self.owing = answer.kept > 0 || answer.granted > 0 || self.spent_since(flight);
        if now >= until {
            return self.forget();
        }
        let lost = flight.holding.saturating_sub(answer.kept);
        if lost > 0 {
            // What was taken since may be part of what is lost.
            self.round += 1;
        }
        self.slice = self.slice.saturating_sub(lost) + answer.granted;
        self.until = until;
        self.low = self.slice / 2;
    }

    const fn spent_since(&self, flight: &Flight<W>) -> bool {
        flight.holding > self.slice
    }

    /// What those who went along with the request are told, and what is refused from now on.
    fn told_by(
        &mut self,
        terms: &Leasable,
        flight: Flight<W>,
        answer: &LeaseAnswer,
        now: Timestamp,
    ) -> Vec<(W, Outcome)> {
        self.refused = None;
        // The store's "in so many" counts from about the middle of the journey.
        let decided = flight.sent + (now - flight.sent) / 2;
        if answer.granted < flight.want && answer.free == 0 {
            self.rests_until = now + terms.rest();
            self.refuse(terms, 1, 0, decided);
        }
        let mut told = Vec::with_capacity(flight.takers.len() + self.waiting.len());
        let mut runs = runs(&flight.takers).into_iter().zip(&answer.takes);
        let (mut left, mut admitted, mut wait) = (0, 0, 0);
        for (waiter, cost) in flight.takers {
            if left == 0 {
                let Some((run, taken)) = runs.next() else {
                    told.push((waiter, Outcome::Failed));
                    continue;
                };
                (left, admitted, wait) = (run.count, taken.admitted, taken.wait);
                if admitted < run.count {
                    self.refuse(terms, cost, wait, decided);
                }
            }
            left -= 1;
            let outcome = if admitted > 0 {
                admitted -= 1;
                Outcome::Taken(Slip { epoch: self.epoch, round: None, cost })
            } else {
                Outcome::NotBefore(self.refusal(cost, now).unwrap_or(0).max(wait))
            };
            told.push((waiter, outcome));
        }
        told
    }

    /// Remembers that `cost` was refused at `at`, or something less before it.
    fn refuse(&mut self, terms: &Leasable, cost: u64, wait: u64, at: Timestamp) {
        let wait = Duration::from_nanos(wait);
        let hold = terms.hold(wait);
        if self.refused.is_none_or(|refused| cost <= refused.cost) {
            self.refused = Some(Refused { cost, until: at + hold, not_before: at + wait });
        }
    }

    /// Decides for those who wait as far as it can be decided here. Says whether the slice served anybody.
    fn serve_waiting(&mut self, now: Timestamp, told: &mut Vec<(W, Outcome)>) -> bool {
        let mut served = false;
        let mut left = VecDeque::new();
        for (waiter, cost) in std::mem::take(&mut self.waiting) {
            if waiter.is_gone() {
                continue;
            }
            if cost <= self.slice && now < self.until {
                told.push((waiter, Outcome::Taken(self.spend(cost))));
                served = true;
            } else if let Some(wait) = self.refusal(cost, now) {
                told.push((waiter, Outcome::NotBefore(wait)));
            } else {
                left.push_back((waiter, cost));
            }
        }
        self.waiting = left;
        served
    }

    /// The request that follows an answer at once: for those who still wait, or because the slice is low.
    fn next_request(&mut self, now: Timestamp, served: bool) -> Option<LeaseRequest> {
        let takers: Vec<_> = std::mem::take(&mut self.waiting).into_iter().filter(|(w, _)| !w.is_gone()).collect();
        if !takers.is_empty() {
            return Some(self.fetch(now, 0, takers));
        }
        let low = served && self.slice <= self.low && now >= self.rests_until;
        low.then(|| self.fetch(now, self.slice, Vec::new()))
    }
}

/// What became of a caller the slice did not suffice for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Refused at once.
    NotBefore(u64),
    /// It will be told; this is to be sent.
    Send(LeaseRequest),
    /// It will be told.
    Waits,
    /// Too many wait already.
    Crowded,
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

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
