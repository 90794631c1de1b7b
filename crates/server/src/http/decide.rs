//! Decides HTTP checks with the rule engine.

use sluicegate_engine::sluice::Admission;
use sluicegate_engine::spelling::nearest;
use sluicegate_engine::{Outcome, Sluice};

use super::decode::CheckRequest;
use super::problem::{ApiErrorKind, Problem, quote_input};
use crate::missing_key::missing_key_attribute;

/// Starts a decision that never queues.
pub(super) fn check_now(sluice: &Sluice, check: &CheckRequest<'_>) -> Result<Admission, Problem> {
    match &check.rule {
        None => Ok(sluice.decide_async(&check.engine_request())),
        Some(rule) => sluice
            .rule(rule)
            .map(|rule| rule.decide_async(&check.engine_request()))
            .ok_or_else(|| unknown_rule(sluice, rule)),
    }
}

/// Starts a decision that may wait in the rule's queue.
pub(super) fn admit(sluice: &Sluice, check: &CheckRequest<'_>) -> Result<Admission, Problem> {
    match &check.rule {
        None => Ok(sluice.admit(&check.engine_request())),
        Some(rule) => {
            sluice.rule(rule).map(|rule| rule.admit(&check.engine_request())).ok_or_else(|| unknown_rule(sluice, rule))
        }
    }
}

/// Resolves an admission; without awaiting if the store is not needed.
pub(super) async fn resolve(mut admission: Admission) -> Outcome {
    match admission.take() {
        Some(outcome) => outcome,
        None => admission.await,
    }
}

/// Decides one check.
pub(super) async fn decide(sluice: &Sluice, check: &CheckRequest<'_>) -> Result<Outcome, Problem> {
    let outcome = resolve(check_now(sluice, check)?).await;
    require_key(&outcome, check)?;
    Ok(outcome)
}

/// Refuses a check that names a rule but lacks an attribute of the rule's key.
pub(super) fn require_key(outcome: &Outcome, check: &CheckRequest<'_>) -> Result<(), Problem> {
    let Some(name) = &check.rule else { return Ok(()) };
    let Some(attribute) = missing_key_attribute(outcome, name, &check.engine_request()) else { return Ok(()) };
    let detail = format!("rule {} is keyed by {attribute}, which is missing from the check", quote_input(name));
    Err(Problem::new(ApiErrorKind::Invalid, detail).at("/rule"))
}

fn unknown_rule(sluice: &Sluice, rule: &str) -> Problem {
    let rules = sluice.counts();
    let detail = match nearest(rule, rules.iter().map(|known| known.rule.as_str())) {
        Some(near) => format!("unknown rule {}: did you mean '{near}'?", quote_input(rule)),
        None => format!("unknown rule {}: use the name of a rule in the rule file", quote_input(rule)),
    };
    Problem::new(ApiErrorKind::UnknownRule, detail).at("/rule")
}
