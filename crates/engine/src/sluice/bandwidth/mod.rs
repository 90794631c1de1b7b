//! Bandwidth limits: pace the bytes of request and response bodies.
//!
//! A rule that limits only bandwidth does not decide on admission, because the number of bytes is unknown at
//! that time. It meters bytes as they pass. All bodies of one key share the rule's bucket, over any number of
//! connections.

mod pacer;
mod ticket;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;

pub(super) use pacer::Pacer;
pub use ticket::ByteTicket;

use crate::algorithm::Check;
use crate::limit_set::Evaluation;
use crate::table::KeyHash;
use crate::time::Timestamp;

/// Bandwidth meters of one request: the buckets of its key in every rule that paces it. Clones take from the
/// same buckets. Without meters everything passes.
///
/// ```
/// use sluicegate_engine::{Limit, Rate, Sluice, rule::{Request, Rule}};
///
/// let download = Limit::bandwidth(Rate::per_second(1_000)?, 4_000)?;
/// let sluice = Sluice::builder().rule(Rule::new("download", [download])).build()?;
/// let outcome = sluice.decide(&Request::new("GET", "/film"));
/// assert!(outcome.is_admitted());
///
/// let meters = outcome.meters();
/// assert_eq!(meters.try_take(3_000), 3_000);
/// assert!((1_000..1_050).contains(&meters.try_take(3_000)), "no more than is left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Meters(SmallVec<[KeyMeter; 1]>);

#[derive(Clone)]
struct KeyMeter {
    pacer: Arc<Pacer>,
    key: KeyHash,
}

impl Meters {
    pub(super) fn new<'a>(buckets: impl Iterator<Item = (&'a Arc<Pacer>, KeyHash)>) -> Self {
        let mut meters: SmallVec<_> = buckets.map(|(pacer, key)| KeyMeter { pacer: Arc::clone(pacer), key }).collect();
        // Limiters are always locked in the same order to avoid deadlocks.
        meters.sort_unstable_by_key(|meter: &KeyMeter| meter.pacer.limiter.id());
        Self(meters)
    }

    /// True if nothing is metered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes as many bytes as may pass now, up to `max`. Returns zero while others are queued for the same key, or
    /// if fewer bytes are available than the minimum grant.
    pub fn try_take(&self, max: u64) -> u64 {
        let Some(first) = self.0.first() else { return max };
        if max == 0 || self.0.iter().any(KeyMeter::has_waiters) {
            return 0;
        }
        grant(&self.0, first.pacer.limiter.clock.now(), self.min_grant(max), max)
    }

    /// Waits until bytes may pass, first in, first out per key, and takes up to `max` of them. A body that needs
    /// more queues again behind later arrivals, so that all get about the same share.
    pub fn take(&self, max: u64) -> ByteTicket {
        ByteTicket::new(self, max)
    }

    /// Minimum grant for a body that wants `max` bytes.
    fn min_grant(&self, max: u64) -> u64 {
        let steps = self.0.iter().map(|meter| meter.pacer.min_grant());
        steps.min().unwrap_or(1).min(max)
    }

    /// Meter with the longest wait for this number of bytes, and that wait.
    fn slowest(&self, now: Timestamp, bytes: u64) -> (usize, Duration) {
        let wait = |meter: &KeyMeter| match meter.pacer.is_lifted() {
            true => Duration::ZERO,
            false => meter.pacer.limiter.min_wait(meter.key, now, bytes),
        };
        let waits = self.0.iter().map(wait).enumerate();
        waits.max_by_key(|(_, wait)| *wait).unwrap_or_default()
    }
}

impl KeyMeter {
    fn has_waiters(&self) -> bool {
        !self.pacer.is_lifted() && self.pacer.limiter.has_waiters(self.key)
    }
}

/// Takes `min` to `max` bytes from all these meters, the same from each, or nothing from any. Each stays locked
/// during the check of the next.
fn grant(meters: &[KeyMeter], now: Timestamp, min: u64, max: u64) -> u64 {
    let Some((KeyMeter { pacer, key }, others)) = meters.split_first() else { return max };
    if pacer.is_lifted() {
        return grant(others, now, min, max);
    }
    let mut granted = 0;
    pacer.limiter.with_state(*key, now, &mut |limit_set, state| {
        let left = limit_set.report(&mut Evaluation { check: Check::Now, limit: 0 }, state, now).remaining;
        if left >= min {
            granted = grant(others, now, min, left.min(max));
        }
        if granted > 0 {
            limit_set.take(state, now, granted, false, &mut None);
        }
        granted > 0
    });
    if granted > 0 {
        pacer.counters.bytes.fetch_add(granted, Ordering::Relaxed);
    }
    granted
}

impl std::fmt::Debug for Meters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Meters").field("rules", &self.0.len()).finish()
    }
}
