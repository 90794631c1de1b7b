//! Quotas reported by several responses: requests allowed until a reset.

use std::time::Duration;

use sluicegate_engine::Timestamp;

/// Maximum quotas kept.
const MAX_QUOTAS: usize = 8;

/// Until `until`, at most `total` requests may have been sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerQuota {
    pub(super) total: u64,
    pub(super) until: Timestamp,
    /// Requests per window; at least 1.
    pub(super) quota: u64,
    /// Time from one reset to the next.
    pub(super) window: Duration,
    /// The response it comes from; `None` if it is only assumed.
    pub(super) reported: Option<ReportedQuota>,
}

/// Content and time of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReportedQuota {
    /// The reported remaining requests.
    pub(super) remaining: u64,
    /// Index of the last request sent before the response arrived.
    pub(super) last_index: u64,
    /// Upper bound of the total: the remainder beyond all requests sent then, capped by the
    /// quotas it replaced.
    pub(super) max_total: u64,
    /// Index of the last request that `max_total` counts as sent.
    pub(super) counted: u64,
}

impl ServerQuota {
    pub(super) const fn remaining(&self, sent: u64) -> u64 {
        self.total.saturating_sub(sent)
    }

    /// Caps the total by another quota that this one replaces and that must still hold.
    fn cap_by(&mut self, other: &Self) {
        if let (Some(reported), Some(other)) = (&mut self.reported, &other.reported) {
            reported.max_total = reported.max_total.min(other.max_total);
            reported.counted = reported.counted.max(other.counted);
        }
    }

    /// The first reset after `now`, which is not before its own.
    pub(super) fn reset_after(&self, now: Timestamp) -> Timestamp {
        let window = self.window.as_nanos().max(1);
        let passed = (now - self.until).as_nanos() / window + 1;
        self.until + Duration::from_nanos(u64::try_from(passed * window).unwrap_or(u64::MAX))
    }

    /// Send time of the next request after `ahead` others, if the remainder is spread evenly over the time from
    /// the last one to the reset.
    pub(super) fn even_send_time(&self, sent: u64, last: Timestamp, ahead: u64) -> Timestamp {
        let parts = u128::from(self.remaining(sent)) + 1;
        let between = (self.until - last).as_nanos().div_ceil(parts);
        let nanos = between.saturating_mul(u128::from(ahead) + 1);
        last + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Non-redundant quotas, sorted by reset time.
///
/// Responses of one window seldom agree on its end to the second, and a sliding window has another
/// end with each response. If there are too many, the two with the closest resets are merged into one that is
/// as strict as both.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerQuotas(Vec<ServerQuota>);

impl ServerQuotas {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ServerQuota> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, mut new: ServerQuota) {
        let stricter = |old: &&mut ServerQuota| old.total <= new.total && old.until >= new.until;
        if let Some(old) = self.0.iter_mut().find(stricter) {
            old.cap_by(&new);
            return;
        }
        self.0.retain(|old| {
            let is_needed = old.total < new.total || old.until > new.until;
            if !is_needed {
                new.cap_by(old);
            }
            is_needed
        });
        let at = self.0.partition_point(|old| old.until < new.until);
        self.0.insert(at, new);
        if self.0.len() > MAX_QUOTAS {
            self.merge_closest();
        }
    }

    /// A request was answered. If it was in flight when a quota was reported, and reports a higher remainder,
    /// the server had counted it before that quota.
    pub(super) fn on_response(&mut self, number: u64, remaining: u64) {
        for ServerQuota { total, reported, .. } in &mut self.0 {
            if reported.is_some_and(|reported| {
                number <= reported.last_index && remaining > reported.remaining && *total < reported.max_total
            }) {
                *total += 1;
            }
        }
    }

    /// A request was never sent: quotas that counted it lose one.
    pub(super) fn cancel_send(&mut self, number: u64) {
        for ServerQuota { total, reported, .. } in &mut self.0 {
            if let Some(reported) = reported.as_mut().filter(|reported| number <= reported.counted) {
                reported.max_total = reported.max_total.saturating_sub(1);
                *total = reported.max_total.min(*total);
            }
        }
    }

    /// Drops quotas that have expired at `now`, and returns the last of them.
    pub(super) fn drop_expired(&mut self, now: Timestamp) -> Option<ServerQuota> {
        let passed = self.0.partition_point(|quota| quota.until <= now);
        self.0.drain(..passed).next_back()
    }

    fn merge_closest(&mut self) {
        let gap = |at: &usize| self.0[at + 1].until - self.0[*at].until;
        if let Some(at) = (0..self.0.len().saturating_sub(1)).min_by_key(gap) {
            let later = self.0.remove(at + 1);
            let joined = &mut self.0[at];
            joined.total = joined.total.min(later.total);
            joined.until = later.until;
            joined.cap_by(&later);
            // It no longer belongs to one response that others could be compared with.
            if let Some(reported) = &mut joined.reported {
                reported.remaining = u64::MAX;
            }
        }
    }
}
