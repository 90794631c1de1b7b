//! Pacer of one destination: computes the next send time from server hints. Pure: time is passed in.
//!
//! Two hints delay a request: a time before which nothing may be sent (`Retry-After`), and
//! quotas on the requests until a reset (`RateLimit`).
//!
//! Requests are counted from the first one on, so that a response can be compared with the requests
//! sent since. The server has counted the request it answers, and those that it answered before. Requests
//! in flight may be counted or not; to be safe, they are not. Requests that ended without a reported budget
//! are treated alike, unless they had ended before the answered request was sent. So a response with
//! `remaining` left sets the quota's total to
//!
//! > answered requests + requests ended without a budget before it was sent + `remaining`
//!
//! and all quotas hold, each until its own reset. A response that was overtaken by another
//! therefore sets no higher quota, and concurrent requests cannot spend the last one
//! together. If a request that was in flight is answered later with a higher remainder than a quota reported, the
//! server had counted it before, and that quota rises by one: once all are answered it is exact.

mod quotas;
#[cfg(test)]
mod tests;

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_http_adapter::server_hints::QuotaStatus;

use quotas::{ReportedQuota, ServerQuota, ServerQuotas};

/// Pacing of a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Without pacing until it is spent, then nothing until the reset.
    #[default]
    Budget,
    /// Evenly over the time until the reset.
    Evenly,
}

/// Record of a sent request.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendRecord {
    /// Its index; never reused.
    index: u64,
    /// Number of requests that had ended without a reported budget.
    silent: u64,
    /// Send time of its predecessor.
    previous: Timestamp,
    /// Its send time.
    at: Timestamp,
}

/// Reason for the delay of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockReason {
    /// The server requested a hold.
    RetryAfter,
    /// The budget is spent, or its next part is not due yet.
    Budget,
}

/// Pacing state of one destination.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    pace: Pace,
    /// Maximum validity of a server hint.
    max_hold: Duration,
    /// Index of the last request.
    last_index: u64,
    /// Requests sent, without cancelled ones.
    sent: u64,
    answered: u64,
    silent: u64,
    not_before: Timestamp,
    quotas: ServerQuotas,
    /// Quota assumed after a reset, until a response reports one.
    assumed: Option<AssumedQuota>,
    /// Send time of the last request.
    last_sent: Timestamp,
}

#[derive(Clone, Copy, Debug)]
struct AssumedQuota {
    quota: ServerQuota,
    /// Index of the last request before it began.
    since: u64,
}

impl Pacer {
    pub(super) const fn new(pace: Pace, max: Duration) -> Self {
        Self {
            pace,
            max_hold: max,
            last_index: 0,
            sent: 0,
            answered: 0,
            silent: 0,
            not_before: Timestamp::ZERO,
            quotas: ServerQuotas::new(),
            assumed: None,
            last_sent: Timestamp::ZERO,
        }
    }

    /// Sends a request, or returns the time until it is held and the reason.
    pub(super) fn send(&mut self, now: Timestamp) -> Result<SendRecord, (Timestamp, BlockReason)> {
        let (at, hold) = self.next_send_time(now, 0);
        if at > now {
            return Err((at, hold));
        }
        let previous = self.last_sent;
        self.last_sent = now;
        self.sent += 1;
        self.last_index += 1;
        Ok(SendRecord { index: self.last_index, silent: self.silent, previous, at: now })
    }

    /// True if a claimed request that is not sent yet may still be sent.
    pub(super) fn may_send(&mut self, now: Timestamp) -> bool {
        self.expire_quotas(now);
        now >= self.not_before && self.active_quotas(now).all(|quota| self.sent <= quota.total)
    }

    /// Cancels a request that was never sent.
    pub(super) fn cancel_send(&mut self, record: &SendRecord) {
        self.sent = self.sent.saturating_sub(1);
        self.quotas.cancel_send(record.index);
        if self.last_sent == record.at {
            self.last_sent = record.previous;
        }
    }

    /// Applies a response, with a reported budget or without. Returns true if the holds
    /// have changed.
    pub(super) fn on_response(&mut self, record: &SendRecord, budget: Option<&QuotaStatus>, now: Timestamp) -> bool {
        self.expire_quotas(now);
        let outdated = self.assumed.take_if(|assumed| record.index > assumed.since);
        let Some(budget) = budget else {
            self.silent += 1;
            return outdated.is_some();
        };
        self.answered += 1;
        let total = self.answered.saturating_add(record.silent).saturating_add(budget.remaining);
        let reset = budget.reset.min(self.max_hold);
        // Beyond the maximum hold the server's quota is not assumed: one request probes it.
        let quota =
            if reset < budget.reset { 1 } else { budget.limit.unwrap_or(budget.remaining.saturating_add(1)).max(1) };
        let window = budget.window.unwrap_or(reset).min(self.max_hold);
        self.quotas.on_response(record.index, budget.remaining);
        let max = self.sent.saturating_add(budget.remaining);
        let reported = ReportedQuota {
            remaining: budget.remaining,
            last_index: self.last_index,
            max_total: max,
            counted: self.last_index,
        };
        self.quotas.add(ServerQuota { total, until: now + reset, quota, window, reported: Some(reported) });
        true
    }

    /// The request ended without a response. It takes nothing from an assumed quota, so that a server
    /// that is down for a moment is called again within the window.
    pub(super) fn on_failure(&mut self) {
        self.silent += 1;
        if let Some(assumed) = &mut self.assumed {
            assumed.quota.total = assumed.quota.total.saturating_add(1);
        }
    }

    /// Holds all requests for this time. Returns true if that is later than before.
    pub(super) fn hold(&mut self, hold: Duration, jitter: Duration, now: Timestamp) -> bool {
        let until = now + hold.min(self.max_hold) + jitter;
        let later = until > self.not_before;
        self.not_before = self.not_before.max(until);
        later
    }

    /// Earliest send time of a request with `ahead` others before it, and the reason for the wait.
    pub(super) fn next_send_time(&mut self, now: Timestamp, ahead: u64) -> (Timestamp, BlockReason) {
        self.expire_quotas(now);
        let mut turn = (now.max(self.not_before), BlockReason::RetryAfter);
        let mut not_before = |at: Timestamp| {
            if at > turn.0 {
                turn = (at, BlockReason::Budget);
            }
        };
        for quota in self.active_quotas(now) {
            if self.pace == Pace::Evenly {
                not_before(quota.even_send_time(self.sent, self.last_sent, ahead));
            }
            if let Some(behind) = ahead.checked_sub(quota.remaining(self.sent)) {
                // Number of windows that must pass after this one.
                let windows = u32::try_from(behind / quota.quota).unwrap_or(u32::MAX);
                not_before(quota.until + quota.window.saturating_mul(windows));
            }
        }
        turn
    }

    /// Remaining requests, and the time until which that holds: the quota with the smallest remainder.
    pub(super) fn remaining(&self, now: Timestamp) -> Option<(u64, Timestamp)> {
        let left = self.active_quotas(now).map(|quota| (quota.remaining(self.sent), quota.until));
        left.min_by_key(|(left, until)| (*left, u64::MAX - until.as_nanos()))
    }

    /// End of the hold requested by the server, if any.
    pub(super) fn blocked_until(&self, now: Timestamp) -> Option<Timestamp> {
        (self.not_before > now).then_some(self.not_before)
    }

    pub(super) const fn in_flight(&self) -> u64 {
        self.sent.saturating_sub(self.answered).saturating_sub(self.silent)
    }

    /// Time at which all hints have expired.
    pub(super) fn recovered_at(&self) -> Timestamp {
        let assumed = self.assumed.iter().map(|assumed| assumed.quota.until);
        self.quotas.iter().map(|quota| quota.until).chain(assumed).fold(self.not_before, Timestamp::max)
    }

    fn active_quotas(&self, now: Timestamp) -> impl Iterator<Item = &ServerQuota> {
        let assumed = self.assumed.iter().map(|assumed| &assumed.quota);
        self.quotas.iter().chain(assumed).filter(move |quota| quota.until > now)
    }

    /// Drops expired quotas. The budget after the reset is not reported yet: it is assumed
    /// to be the quota, so that queued requests do not all go at once.
    fn expire_quotas(&mut self, now: Timestamp) {
        let reported = self.quotas.drop_expired(now);
        let assumed = self.assumed.take_if(|assumed| assumed.quota.until <= now);
        let Some(expired) = reported.or(assumed.map(|assumed| assumed.quota)) else { return };
        if self.quotas.is_empty() && self.assumed.is_none() {
            let total = self.answered.saturating_add(self.silent).saturating_add(expired.quota);
            let quota = ServerQuota { total, until: expired.reset_after(now), reported: None, ..expired };
            self.assumed = Some(AssumedQuota { quota, since: self.last_index });
        }
    }
}
