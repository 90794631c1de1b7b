//! Selection of the rules that apply to a request, with key and cost of each.

use std::num::IntErrorKind;

use super::check::{Checks, RuleCheck};
use super::snapshot::Snapshot;
use crate::rule::key::hash_key;
use crate::rule::{Attribute, Cost, Params, Request, Rule};
use crate::table::{KeyHash, KeyHasher};

/// Selection of the rules to evaluate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Selection {
    /// Rules with a target that matches the request.
    Matching,
    /// The rule at this position, regardless of its target and side.
    Only(usize),
}

/// Collects the checks of a request. `each` is called for every matching rule, including rules with a key that
/// the request lacks.
pub(super) fn select(
    snapshot: &Snapshot,
    selection: Selection,
    request: &Request<'_>,
    checks: &mut Checks,
    each: impl FnMut(usize, &Params<'_>),
) {
    each_check(snapshot, selection, request, each, |rule, key, cost| {
        let shadow = snapshot.rules()[rule].is_shadow();
        checks.push(RuleCheck { rule, key, cost, shadow, result: None, key_name: None });
    });
}

/// Calls `counts` for each rule that counts the request, with its key and cost. `each` is called for every
/// matching rule, including rules with a key that the request lacks.
#[inline]
pub(super) fn each_check(
    snapshot: &Snapshot,
    selection: Selection,
    request: &Request<'_>,
    mut each: impl FnMut(usize, &Params<'_>),
    mut counts: impl FnMut(usize, KeyHash, u64),
) {
    each_rule(snapshot, selection, request, |index, params| {
        let rule = &snapshot.rules()[index];
        each(index, params);
        let mut hasher = KeyHasher::new(snapshot.seed());
        if hash_key(&rule.key, request, params, &mut hasher) {
            let key = hasher.key();
            if let Some(core) = &snapshot.state(index).core {
                core.prefetch(key);
            }
            counts(index, key, cost(rule, request, params));
        }
    });
}

/// Calls `found` for each selected rule, with the parameters that its pattern captured.
pub(super) fn each_rule(
    snapshot: &Snapshot,
    selection: Selection,
    request: &Request<'_>,
    mut found: impl FnMut(usize, &Params<'_>),
) {
    match selection {
        Selection::Matching => snapshot.index().matching(snapshot.rules(), request, found),
        Selection::Only(rule) => {
            // The pattern is not evaluated, so there are no parameters.
            let params = Params::new();
            if snapshot.rules()[rule].when.as_ref().is_none_or(|when| when.holds(request, &params)) {
                found(rule, &params);
            }
        }
    }
}

/// Cost of a request under a rule. A request with a cost of zero consumes nothing under any rule.
#[inline]
fn cost(rule: &Rule, request: &Request<'_>, params: &Params<'_>) -> u64 {
    match &rule.cost {
        _ if request.cost == 0 => 0,
        Cost::Fixed(cost) => cost.saturating_mul(request.cost),
        Cost::Estimate { reserve, .. } => *reserve,
        Cost::Attribute(attribute) => attribute_cost(attribute, request, params),
    }
}

fn attribute_cost(attribute: &Attribute, request: &Request<'_>, params: &Params<'_>) -> u64 {
    match request.value(attribute, params).map(|text| text.trim().parse::<u64>()) {
        Some(Ok(number)) => number,
        // A number that overflows exceeds every limit; it must not count as one.
        Some(Err(error)) if *error.kind() == IntErrorKind::PosOverflow => u64::MAX,
        _ => 1,
    }
}
