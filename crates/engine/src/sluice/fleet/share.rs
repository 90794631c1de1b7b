//! This process's share of a limit, for when the store is lost.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::fleet::share_of;
use crate::limit::Limit;
use crate::limiter::Inner;
use crate::rule::Rule;
use crate::sluice::snapshot::{Means, RuleState, buckets, estimates};
use crate::sluice::{RuleSetError, in_rule};

/// A share that follows how many processes there are.
pub(super) struct Share {
    limiter: Arc<Inner>,
    whole: Vec<Limit>,
    estimates: bool,
    /// How many processes the limiter's limits are for, and whether anything is left for each.
    cut: Mutex<Cut>,
}

#[derive(Clone, Copy)]
struct Cut {
    nodes: u32,
    is_something: bool,
}

impl Share {
    /// The share of a rule; what the rule of the same name before it had counted goes on. One whose limits did not
    /// change stays as it is, and need not be cut again while requests wait for it.
    pub(super) fn take_up(
        rule: &Rule,
        means: &Means<'_>,
        memory: usize,
        old: Option<&Arc<Self>>,
    ) -> Result<Arc<Self>, RuleSetError> {
        let estimates = estimates(rule);
        if let Some(old) = old.filter(|old| old.whole == rule.limits && old.estimates == estimates) {
            return Ok(Arc::clone(old));
        }
        let limiter = match old {
            Some(old) => Arc::clone(&old.limiter),
            None => RuleState::limiter(rule, means, memory)?,
        };
        if old.is_some() && !rule.key.is_empty() {
            let buckets = buckets(rule, memory)?;
            limiter.rebuild(rule.limits.clone(), estimates, buckets).map_err(in_rule(rule))?;
        }
        // Cut when it is first needed: by then it is known for how many.
        let cut = Mutex::new(Cut { nodes: 0, is_something: false });
        Ok(Arc::new(Self { limiter, whole: rule.limits.clone(), estimates, cut }))
    }

    /// What counts it, whatever it is now.
    pub(super) fn counter(&self) -> Arc<Inner> {
        Arc::clone(&self.limiter)
    }

    /// One of so many shares; `None`: there is nothing to share out.
    pub(super) fn of(&self, nodes: u32) -> Option<&Inner> {
        let mut cut = self.cut.lock();
        if cut.nodes != nodes {
            let shares = self.whole.iter().map(|limit| share_of(*limit, nodes).ok().flatten());
            let shares: Option<Vec<Limit>> = shares.collect();
            let rebuilt = shares.map(|limits| self.limiter.rebuild(limits, self.estimates, self.limiter.buckets()));
            *cut = Cut { nodes, is_something: matches!(rebuilt, Some(Ok(()))) };
        }
        cut.is_something.then_some(&*self.limiter)
    }
}
