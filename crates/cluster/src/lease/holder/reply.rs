//! What a holder makes of the store's answers, and of none.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::{Effects, Flight, Holder, NODE_LIFE, Outcome, Refused, Slip, Waiter, runs};
use crate::lease::message::{Account, LeaseAnswer, LeaseReply, LeaseRequest};
use crate::lease::terms::Leasable;

impl<W: Waiter> Holder<W> {
    /// The store has answered the request that said `account`.
    pub(crate) fn answered(
        &mut self,
        terms: &Leasable,
        account: &Account,
        reply: &LeaseReply,
        now: Timestamp,
    ) -> Effects<W> {
        let LeaseReply::Done(answer) = reply else { return self.failed(account, now) };
        let Some(flight) = self.land(account) else { return Effects::default() };
        self.receive(&flight, answer, now);
        let mut told = self.told_by(terms, flight, answer, now);
        let served = self.serve_waiting(now, &mut told);
        let request = self.next_request(now, served);
        Effects { told, request }
    }

    /// The request that said `account` was not answered in time, and will not be heeded if it is.
    pub(crate) fn failed(&mut self, account: &Account, now: Timestamp) -> Effects<W> {
        let Some(flight) = self.land(account) else { return Effects::default() };
        let told = flight.takers.into_iter().map(|(waiter, _)| (waiter, Outcome::Failed)).collect();
        let request = self.next_request(now, false);
        Effects { told, request }
    }

    /// The request under way, if it is this one.
    fn land(&mut self, account: &Account) -> Option<Flight<W>> {
        let own = account.epoch == self.epoch;
        self.flight.take_if(|flight| own && flight.sequence == account.sequence)
    }

    /// Takes over what was granted, for as long as it lasts.
    fn receive(&mut self, flight: &Flight<W>, answer: &LeaseAnswer, now: Timestamp) {
        let until = flight.sent + NODE_LIFE;
        let spent_since = self.slice < flight.holding;
        self.seen = (answer.free, answer.reset);
        self.charges = self.charges.saturating_sub(flight.charge);
        self.owing = answer.kept > 0 || answer.granted > 0 || spent_since;
        if now >= until {
            self.slice = self.slice.saturating_add(answer.granted);
            return self.forget();
        }
        let lost = flight.holding.saturating_sub(answer.kept);
        if lost > 0 {
            // What was taken since may be part of what is lost.
            self.round += 1;
        }
        let held = self.slice > 0;
        self.slice = self.slice.saturating_add(answer.granted).saturating_sub(lost);
        if self.slice > 0 {
            let became = if held { &mut self.turns.renewed } else { &mut self.turns.taken };
            *became += 1;
        }
        self.until = until;
        self.low = self.slice / 2;
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
