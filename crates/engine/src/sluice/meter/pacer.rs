//! What a rule paces bytes with.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::limit::{Limit, Rate};
use crate::limiter::Inner;
use crate::rule::{Rule, Scope};
use crate::sluice::counts::Counters;

/// What the rate gives in this time is worth waiting for: less would make many small pieces of a body, more
/// would hold back what may pass.
const STEP: Duration = Duration::from_millis(50);

impl Rule {
    /// Whether it paces the bytes of bodies instead of deciding about requests: all its limits are
    /// bandwidth, and each process counts for itself.
    pub fn is_metering(&self) -> bool {
        let paces = |limit: &Limit| matches!(limit, Limit::Bandwidth(_));
        self.scope == Scope::Local && !self.limits.is_empty() && self.limits.iter().all(paces)
    }
}

/// What a rule meters with. Downloads that are under way keep it, through all changes of the rule.
pub(in crate::sluice) struct Pacer {
    pub(super) limiter: Arc<Inner>,
    pub(super) counters: Arc<Counters>,
    /// The least that is worth waiting for.
    step: AtomicU64,
    /// Whether everything may pass: the rule is gone, or only watches.
    lifted: AtomicBool,
}

impl Pacer {
    /// The pacer of a rule with this limiter: the one it had before, if it is still the same limiter.
    pub(in crate::sluice) fn take_up(
        rule: &Rule,
        limiter: &Arc<Inner>,
        counters: &Arc<Counters>,
        old: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let step = step(rule);
        if let Some(old) = old.filter(|old| Arc::ptr_eq(&old.limiter, limiter)) {
            old.step.store(step, Ordering::Relaxed);
            return Arc::clone(old);
        }
        let (step, lifted) = (AtomicU64::new(step), AtomicBool::new(false));
        Arc::new(Self { limiter: Arc::clone(limiter), counters: Arc::clone(counters), step, lifted })
    }

    /// Lets everything pass from now on, or no longer.
    pub(in crate::sluice) fn lift(&self, lifted: bool) {
        self.lifted.store(lifted, Ordering::Relaxed);
        if lifted {
            self.limiter.room.disturb();
        }
    }

    pub(super) fn is_lifted(&self) -> bool {
        self.lifted.load(Ordering::Relaxed)
    }

    /// The least that is worth waiting for.
    pub(super) fn step(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }
}

/// The least that is worth waiting for.
fn step(rule: &Rule) -> u64 {
    let of_limit = |limit: &Limit| match limit {
        Limit::Bandwidth(bucket) => Some(within(STEP, bucket.rate()).clamp(1, bucket.burst())),
        _ => None,
    };
    rule.limits.iter().filter_map(of_limit).min().unwrap_or(1)
}

/// What a rate gives in a span of time.
fn within(span: Duration, rate: Rate) -> u64 {
    let given = u128::from(rate.count()) * span.as_nanos() / rate.period().as_nanos().max(1);
    u64::try_from(given).unwrap_or(u64::MAX)
}
