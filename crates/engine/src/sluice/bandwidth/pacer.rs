//! Pacer: bandwidth state of a rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::limit::{Limit, Rate};
use crate::limiter::LimiterCore;
use crate::rule::{Rule, Scope};
use crate::sluice::counts::RuleCounters;

/// The minimum grant is the amount that the rate yields in this time. Less would split bodies into many small
/// pieces; more would delay bytes that may pass.
const MIN_GRANT_INTERVAL: Duration = Duration::from_millis(50);

impl Rule {
    /// True if the rule paces the bytes of bodies instead of deciding requests: all its limits are bandwidth
    /// limits, and each process counts on its own.
    pub fn is_metering(&self) -> bool {
        let paces = |limit: &Limit| matches!(limit, Limit::Bandwidth(_));
        self.scope == Scope::Local && !self.limits.is_empty() && self.limits.iter().all(paces)
    }
}

/// Bandwidth state of a rule. Transfers in flight keep it across rule changes.
pub(in crate::sluice) struct Pacer {
    pub(super) limiter: Arc<LimiterCore>,
    pub(super) counters: Arc<RuleCounters>,
    /// Minimum grant in bytes.
    min_grant: AtomicU64,
    /// If set, everything passes: the rule was removed or is in shadow mode.
    lifted: AtomicBool,
}

impl Pacer {
    /// Pacer of a rule with this limiter; the old one if the limiter is the same.
    pub(in crate::sluice) fn adopt(
        rule: &Rule,
        limiter: &Arc<LimiterCore>,
        counters: &Arc<RuleCounters>,
        old: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let min_grant = min_grant(rule);
        if let Some(old) = old.filter(|old| Arc::ptr_eq(&old.limiter, limiter)) {
            old.min_grant.store(min_grant, Ordering::Relaxed);
            return Arc::clone(old);
        }
        let (min_grant, lifted) = (AtomicU64::new(min_grant), AtomicBool::new(false));
        Arc::new(Self { limiter: Arc::clone(limiter), counters: Arc::clone(counters), min_grant, lifted })
    }

    /// Disables or enables pacing.
    pub(in crate::sluice) fn lift(&self, lifted: bool) {
        self.lifted.store(lifted, Ordering::Relaxed);
        if lifted {
            self.limiter.queue.invalidate_forecasts();
        }
    }

    pub(super) fn is_lifted(&self) -> bool {
        self.lifted.load(Ordering::Relaxed)
    }

    /// Minimum grant in bytes.
    pub(super) fn min_grant(&self) -> u64 {
        self.min_grant.load(Ordering::Relaxed)
    }
}

/// Computes the minimum grant of a rule.
fn min_grant(rule: &Rule) -> u64 {
    let of_limit = |limit: &Limit| match limit {
        Limit::Bandwidth(bucket) => Some(amount_in(MIN_GRANT_INTERVAL, bucket.rate()).clamp(1, bucket.burst())),
        _ => None,
    };
    rule.limits.iter().filter_map(of_limit).min().unwrap_or(1)
}

/// Amount that a rate yields in a span of time.
fn amount_in(span: Duration, rate: Rate) -> u64 {
    let grant = u128::from(rate.count()) * span.as_nanos() / rate.period().as_nanos().max(1);
    u64::try_from(grant).unwrap_or(u64::MAX)
}
