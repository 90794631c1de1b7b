//! Asking the rules about checks.

use sluicegate_engine::sluice::Admission;
use sluicegate_engine::{Outcome, Sluice};
use sluicegate_http::call::nearest;

use super::problem::{Kind, Problem, shown};
use super::read::Check;
use crate::lacking::lacking;

/// Asks for a decision at once.
pub(super) fn ask(sluice: &Sluice, check: &Check<'_>) -> Result<Admission, Problem> {
    match &check.rule {
        None => Ok(sluice.ask(&check.request())),
        Some(rule) => sluice.ask_named(rule, &check.request()).ok_or_else(|| unknown(sluice, rule)),
    }
}

/// Asks for a decision, to wait for a turn where the rule has a queue.
pub(super) fn admit(sluice: &Sluice, check: &Check<'_>) -> Result<Admission, Problem> {
    match &check.rule {
        None => Ok(sluice.admit(&check.request())),
        Some(rule) => sluice.admit_named(rule, &check.request()).ok_or_else(|| unknown(sluice, rule)),
    }
}

/// The outcome; at once, if the store is not needed for it.
pub(super) async fn decided(mut admission: Admission) -> Outcome {
    match admission.take() {
        Some(outcome) => outcome,
        None => admission.await,
    }
}

/// Decides about one check.
pub(super) async fn decide(sluice: &Sluice, check: &Check<'_>) -> Result<Outcome, Problem> {
    let outcome = decided(ask(sluice, check)?).await;
    countable(&outcome, check)?;
    Ok(outcome)
}

/// Refuses a check that names a rule but lacks what the rule counts by.
pub(super) fn countable(outcome: &Outcome, check: &Check<'_>) -> Result<(), Problem> {
    let Some(name) = &check.rule else { return Ok(()) };
    let Some(attribute) = lacking(outcome, name, &check.request()) else { return Ok(()) };
    let detail = format!("the rule {} counts by {attribute}, which the check does not tell: add it", shown(name));
    Err(Problem::new(Kind::Invalid, detail).at("/rule"))
}

fn unknown(sluice: &Sluice, rule: &str) -> Problem {
    let rules = sluice.counts();
    let detail = match nearest(rule, rules.iter().map(|known| known.rule.as_str())) {
        Some(near) => format!("no rule is called {}: did you mean '{near}'?", shown(rule)),
        None => format!("no rule is called {}: the rule file names those there are", shown(rule)),
    };
    Problem::new(Kind::UnknownRule, detail).at("/rule")
}
