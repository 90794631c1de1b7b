//! Accounting: the counters of rules and lists, the heaviest keys, and refusals that lead to bans.
//!
//! [`Outcome::count`] and the fast path are the only callers of [`RuleState::count`], once per decided request.

use std::sync::atomic::Ordering;

use super::ban::KeyName;
use super::outcome::{Cause, Outcome};
use super::select::{Selection, each_rule};
use super::snapshot::{RuleState, Snapshot};
use crate::rule::Request;
use crate::rule::key::readable_key;
use crate::store::CanonicalKey;
use crate::table::KeyHash;
use crate::time::Timestamp;

/// Request of a decision with the selection of its rules, while it is available. A decision that was suspended
/// outlives its request.
pub(super) type RequestSource<'a> = Option<(Selection, &'a Request<'a>)>;

/// Result of one rule, as it is counted.
#[derive(Clone, Copy)]
pub(super) enum CountedResult {
    Admitted,
    /// Refused by a limit or by the overload gate of the rule.
    Refused,
    /// Refused by a ban of the rule.
    Banned,
    /// Another rule refused the request, or the rule has nothing to decide.
    Undecided,
}

impl RuleState {
    /// Counts a decided request. `name` returns the readable key.
    #[inline]
    pub(super) fn count(
        &self,
        key: KeyHash,
        result: CountedResult,
        degraded: bool,
        now: Timestamp,
        name: impl FnOnce() -> Option<String>,
    ) {
        let counters = &self.counters;
        if let Some(tracker) = &self.tracker {
            tracker.record(key, matches!(result, CountedResult::Refused | CountedResult::Banned), now, name);
        }
        let counter = match result {
            CountedResult::Admitted => &counters.admitted,
            CountedResult::Refused => &counters.refused,
            CountedResult::Banned => &counters.banned,
            CountedResult::Undecided => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if degraded {
            counters.degraded.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Outcome {
    /// Counts a decided request: list hits, the counters of every rule, and refusals towards bans. A refusal
    /// because the store is unavailable, or because the process is overloaded, does not violate a limit and does
    /// not count towards a ban. Key names come from the request or, without it, must have been
    /// [captured](capture_key_names).
    pub(super) fn count(&mut self, now: Timestamp, source: RequestSource<'_>) {
        let lists = self.snapshot.list_counters();
        match self.cause {
            Cause::AllowList(_) => _ = lists.allowed.fetch_add(1, Ordering::Relaxed),
            Cause::DenyList(_) => _ = lists.denied.fetch_add(1, Ordering::Relaxed),
            Cause::Rules | Cause::Ban(_) | Cause::Limit(_) | Cause::Overload(_) => {}
        }
        let (admitted, cause) = (self.is_admitted(), self.cause);
        for check in &mut self.checks {
            let state = self.snapshot.state(check.rule);
            let result = if check.refuses() {
                CountedResult::Refused
            } else if cause == Cause::Ban(check.rule) {
                CountedResult::Banned
            } else if admitted && (check.result.is_some() || state.gate.is_some()) {
                CountedResult::Admitted
            } else {
                CountedResult::Undecided
            };
            let degraded = check.is_degraded();
            state.count(check.key, result, degraded, now, || match &check.key_name {
                Some(key_name) => Some(key_name.name.clone()),
                None => key_name_of(&self.snapshot, source, check.rule).map(|key_name| key_name.name),
            });
            if let (CountedResult::Refused, Some(bans)) = (result, &state.bans)
                && !degraded
                && cause != Cause::Overload(check.rule)
                && bans.record_refusal(check.key, now)
            {
                let captured = check.key_name.take().map(|key_name| *key_name);
                if let Some(key_name) = captured.or_else(|| key_name_of(&self.snapshot, source, check.rule)) {
                    bans.record(&self.snapshot.rules()[check.rule].name, key_name, check.key, now);
                }
            }
        }
    }
}

/// Captures the key names that [`Outcome::count`] may need after the request is gone.
pub(super) fn capture_key_names(outcome: &mut Outcome, selection: Selection, request: &Request<'_>) {
    let Outcome { snapshot, checks, .. } = outcome;
    let is_wanted = |state: &RuleState| state.bans.is_some() || state.tracker.is_some();
    for check in checks.iter_mut().filter(|check| check.key_name.is_none() && is_wanted(snapshot.state(check.rule))) {
        check.key_name = key_name_of(snapshot, Some((selection, request)), check.rule).map(Box::new);
    }
}

/// Name of the key under which a rule counts the request.
#[cold]
pub(super) fn key_name_of(snapshot: &Snapshot, source: RequestSource<'_>, rule: usize) -> Option<KeyName> {
    let (selection, request) = source?;
    let mut key_name = None;
    each_rule(snapshot, selection, request, |index, params| {
        if index == rule {
            let parts = &snapshot.rules()[index].key;
            let names = readable_key(parts, request, params).zip(CanonicalKey::of(parts, request, params));
            key_name = names.map(|(name, key)| KeyName { name, key });
        }
    });
    key_name
}
