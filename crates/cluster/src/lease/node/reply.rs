//! Handling of the store's replies and of failed requests.

use std::collections::VecDeque;
use std::time::Duration;

use sluicegate_engine::Timestamp;

use super::{
    CachedRefusal, Effects, InFlightRequest, LeaseHolder, LeaseOutcome, LeaseReceipt, NODE_LEASE_DURATION, Waiter,
    group_by_cost,
};
use crate::lease::message::{Account, LeaseGrant, LeaseReply, LeaseRequest};
use crate::lease::params::LeaseParams;

impl<W: Waiter> LeaseHolder<W> {
    /// Applies the reply to the request that reported `account`.
    pub(crate) fn on_reply(
        &mut self,
        params: &LeaseParams,
        account: &Account,
        reply: &LeaseReply,
        now: Timestamp,
    ) -> Effects<W> {
        let LeaseReply::Done(grant) = reply else { return self.on_failure(account, now) };
        let Some(in_flight) = self.take_in_flight(account) else { return Effects::default() };
        self.apply_grant(&in_flight, grant, now);
        let mut notify = self.resolve_takers(params, in_flight, grant, now);
        let served_any = self.serve_waiters(now, &mut notify);
        let request = self.next_request(now, served_any);
        Effects { notify, request }
    }

    /// The request that reported `account` timed out; a later reply to it is ignored.
    pub(crate) fn on_failure(&mut self, account: &Account, now: Timestamp) -> Effects<W> {
        let Some(in_flight) = self.take_in_flight(account) else { return Effects::default() };
        let notify = in_flight.takers.into_iter().map(|(waiter, _)| (waiter, LeaseOutcome::Failed)).collect();
        let request = self.next_request(now, false);
        Effects { notify, request }
    }

    /// Takes the request in flight, if it is this one.
    fn take_in_flight(&mut self, account: &Account) -> Option<InFlightRequest<W>> {
        let own = account.epoch == self.epoch;
        self.in_flight.take_if(|in_flight| own && in_flight.sequence == account.sequence)
    }

    /// Adds the grant to the slice until it expires.
    fn apply_grant(&mut self, in_flight: &InFlightRequest<W>, grant: &LeaseGrant, now: Timestamp) {
        let until = in_flight.sent + NODE_LEASE_DURATION;
        let spent_since = self.slice < in_flight.holding;
        self.store_status = (grant.available, grant.reset);
        self.charges = self.charges.saturating_sub(in_flight.charge);
        self.has_outstanding = grant.retained > 0 || grant.granted > 0 || spent_since;
        if now >= until {
            self.slice = self.slice.saturating_add(grant.granted);
            return self.expire();
        }
        let revoked = in_flight.holding.saturating_sub(grant.retained);
        if revoked > 0 {
            // Tokens taken since may be part of the loss.
            self.round += 1;
        }
        let had_slice = self.slice > 0;
        self.slice = self.slice.saturating_add(grant.granted).saturating_sub(revoked);
        if self.slice > 0 {
            let counter = if had_slice { &mut self.stats.renewed } else { &mut self.stats.acquired };
            *counter += 1;
        }
        self.expires_at = until;
        self.low_watermark = self.slice / 2;
    }

    /// Results for the callers that went along with the request; also caches refusals.
    fn resolve_takers(
        &mut self,
        params: &LeaseParams,
        in_flight: InFlightRequest<W>,
        grant: &LeaseGrant,
        now: Timestamp,
    ) -> Vec<(W, LeaseOutcome)> {
        self.cached_refusal = None;
        // The store's wait counts from about the middle of the round trip.
        let decided = in_flight.sent + (now - in_flight.sent) / 2;
        if grant.granted < in_flight.want && grant.available == 0 {
            self.prefetch_paused_until = now + params.prefetch_pause();
            self.cache_refusal(params, 1, 0, decided);
        }
        let mut notify = Vec::with_capacity(in_flight.takers.len() + self.waiters.len());
        let mut runs = group_by_cost(&in_flight.takers).into_iter().zip(&grant.takes);
        let (mut left, mut admitted, mut wait) = (0, 0, 0);
        for (waiter, cost) in in_flight.takers {
            if left == 0 {
                let Some((run, taken)) = runs.next() else {
                    notify.push((waiter, LeaseOutcome::Failed));
                    continue;
                };
                (left, admitted, wait) = (run.count, taken.admitted, taken.wait);
                if admitted < run.count {
                    self.cache_refusal(params, cost, wait, decided);
                }
            }
            left -= 1;
            let outcome = if admitted > 0 {
                admitted -= 1;
                LeaseOutcome::Acquired(LeaseReceipt { epoch: self.epoch, round: None, cost })
            } else {
                LeaseOutcome::NotBefore(self.cached_wait(cost, now).unwrap_or(0).max(wait))
            };
            notify.push((waiter, outcome));
        }
        notify
    }

    /// Caches that `cost`, or less, was refused at `at`.
    fn cache_refusal(&mut self, params: &LeaseParams, cost: u64, wait: u64, at: Timestamp) {
        let wait = Duration::from_nanos(wait);
        let hold = params.refusal_cache_time(wait);
        if self.cached_refusal.is_none_or(|refused| cost <= refused.cost) {
            self.cached_refusal = Some(CachedRefusal { cost, until: at + hold, not_before: at + wait });
        }
    }

    /// Decides waiting callers that can be decided locally. Returns true if the slice served any.
    fn serve_waiters(&mut self, now: Timestamp, notify: &mut Vec<(W, LeaseOutcome)>) -> bool {
        let mut served_any = false;
        let mut left = VecDeque::new();
        for (waiter, cost) in std::mem::take(&mut self.waiters) {
            if waiter.is_cancelled() {
                continue;
            }
            if cost <= self.slice && now < self.expires_at {
                notify.push((waiter, LeaseOutcome::Acquired(self.spend(cost))));
                served_any = true;
            } else if let Some(wait) = self.cached_wait(cost, now) {
                notify.push((waiter, LeaseOutcome::NotBefore(wait)));
            } else {
                left.push_back((waiter, cost));
            }
        }
        self.waiters = left;
        served_any
    }

    /// The follow-up request after a reply: for callers still waiting, or because the slice is low.
    fn next_request(&mut self, now: Timestamp, served_any: bool) -> Option<LeaseRequest> {
        let takers: Vec<_> = std::mem::take(&mut self.waiters).into_iter().filter(|(w, _)| !w.is_cancelled()).collect();
        if !takers.is_empty() {
            return Some(self.request_slice(now, 0, takers));
        }
        let low = served_any && self.slice <= self.low_watermark && now >= self.prefetch_paused_until;
        low.then(|| self.request_slice(now, self.slice, Vec::new()))
    }
}
