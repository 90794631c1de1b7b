//! Bandwidth: how many bytes of a request's bodies may pass, and when.
//!
//! A rule that limits nothing but bandwidth has no say in whether a request is let in: at that time nobody
//! knows how many bytes there will be. It meters them as they pass. All bodies of one key share the
//! rule's bucket, however many connections they go over.

mod pacer;
mod taking;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;

pub(super) use pacer::Pacer;
pub use taking::TakingBytes;

use crate::algorithm::Check;
use crate::plan::Ruling;
use crate::table::KeyHash;
use crate::time::Timestamp;

/// What meters the bytes of one request: the buckets of its key in every rule that paces it. Clones take
/// from the same buckets. Without any, everything passes.
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
pub struct Meters(SmallVec<[Meter; 1]>);

#[derive(Clone)]
struct Meter {
    pacer: Arc<Pacer>,
    key: KeyHash,
}

impl Meters {
    pub(super) fn new<'a>(buckets: impl Iterator<Item = (&'a Arc<Pacer>, KeyHash)>) -> Self {
        let mut meters: SmallVec<_> = buckets.map(|(pacer, key)| Meter { pacer: Arc::clone(pacer), key }).collect();
        // Everybody takes limiters in the same order, so nobody waits in a circle.
        meters.sort_unstable_by_key(|meter: &Meter| meter.pacer.limiter.id());
        Self(meters)
    }

    /// Whether nothing is metered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes as many bytes as may pass now, `most` at most. None while others wait for the same key, and
    /// none if there are so few that they are not worth a piece of their own.
    pub fn try_take(&self, most: u64) -> u64 {
        let Some(first) = self.0.first() else { return most };
        if most == 0 || self.0.iter().any(Meter::has_line) {
            return 0;
        }
        grant(&self.0, first.pacer.limiter.clock.now(), self.worth_taking(most), most)
    }

    /// Waits until bytes may pass, first in, first out per key, and takes some of them: `most` at most. Who
    /// wants more asks again, behind those who came meanwhile, so that all get about the same.
    pub fn take(&self, most: u64) -> TakingBytes {
        TakingBytes::new(self, most)
    }

    /// The least that is worth taking for somebody who wants `most`.
    fn worth_taking(&self, most: u64) -> u64 {
        let steps = self.0.iter().map(|meter| meter.pacer.step());
        steps.min().unwrap_or(1).min(most)
    }

    /// The meter that makes wait longest for so many bytes, and how long that is.
    fn slowest(&self, now: Timestamp, bytes: u64) -> (usize, Duration) {
        let wait = |meter: &Meter| match meter.pacer.is_lifted() {
            true => Duration::ZERO,
            false => meter.pacer.limiter.least_wait(meter.key, now, bytes),
        };
        let waits = self.0.iter().map(wait).enumerate();
        waits.max_by_key(|(_, wait)| *wait).unwrap_or_default()
    }
}

impl Meter {
    fn has_line(&self) -> bool {
        !self.pacer.is_lifted() && self.pacer.limiter.has_line(self.key)
    }
}

/// Takes `least` to `most` bytes from all these meters, the same from each, or nothing from any. Each is
/// held while the next is asked.
fn grant(meters: &[Meter], now: Timestamp, least: u64, most: u64) -> u64 {
    let Some((Meter { pacer, key }, others)) = meters.split_first() else { return most };
    if pacer.is_lifted() {
        return grant(others, now, least, most);
    }
    let mut granted = 0;
    pacer.limiter.visit(*key, now, &mut |plan, state| {
        let left = plan.report(&mut Ruling { check: Check::Now, limit: 0 }, state, now).remaining;
        if left >= least {
            granted = grant(others, now, least, left.min(most));
        }
        if granted > 0 {
            plan.take(state, now, granted, false, &mut None);
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
