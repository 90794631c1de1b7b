//! Local share of a limit, enforced during a store outage.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::limit::Limit;
use crate::limiter::LimiterCore;
use crate::rule::Rule;
use crate::sluice::snapshot::{BuildContext, RuleState, buckets, estimates};
use crate::sluice::{RuleSetError, in_rule};
use crate::store::share_of;

/// Local share that follows the number of processes.
pub(super) struct LocalShare {
    limiter: Arc<LimiterCore>,
    full_limits: Vec<Limit>,
    estimates: bool,
    /// Number of processes for which the limits are divided, and the usability of the result.
    split: Mutex<ShareSplit>,
}

#[derive(Clone, Copy)]
struct ShareSplit {
    nodes: u32,
    is_usable: bool,
}

impl LocalShare {
    /// Local share of a rule; takes over the counts of the rule of the same name that it replaces. It is reused as
    /// is if the limits did not change, so that requests need not wait for another division.
    pub(super) fn adopt(
        rule: &Rule,
        context: &BuildContext<'_>,
        memory: usize,
        old: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, RuleSetError> {
        let estimates = estimates(rule);
        if let Some(old) = old.filter(|old| old.full_limits == rule.limits && old.estimates == estimates) {
            return Ok(Arc::clone(old));
        }
        let limiter = match old {
            Some(old) => Arc::clone(&old.limiter),
            None => RuleState::limiter(rule, context, memory)?,
        };
        if old.is_some() && !rule.key.is_empty() {
            let buckets = buckets(rule, memory)?;
            limiter.rebuild(rule.limits.clone(), estimates, buckets).map_err(in_rule(rule))?;
        }
        // Divided on first use: the number of processes is known by then.
        let split = Mutex::new(ShareSplit { nodes: 0, is_usable: false });
        Ok(Arc::new(Self { limiter, full_limits: rule.limits.clone(), estimates, split }))
    }

    /// Limiter of the share, with its current limits.
    pub(super) fn limiter(&self) -> Arc<LimiterCore> {
        Arc::clone(&self.limiter)
    }

    /// Limiter divided for this number of processes; `None` if nothing is left for each.
    pub(super) fn for_nodes(&self, nodes: u32) -> Option<&LimiterCore> {
        let mut split = self.split.lock();
        if split.nodes != nodes {
            let shares = self.full_limits.iter().map(|limit| share_of(*limit, nodes).ok().flatten());
            let shares: Option<Vec<Limit>> = shares.collect();
            let rebuilt = shares.map(|limits| self.limiter.rebuild(limits, self.estimates, self.limiter.buckets()));
            *split = ShareSplit { nodes, is_usable: matches!(rebuilt, Some(Ok(()))) };
        }
        split.is_usable.then_some(&*self.limiter)
    }
}
