//! What a request lacks that the rule it names counts by.

use sluicegate_engine::Outcome;
use sluicegate_engine::rule::{Attribute, Params, Request};
use sluicegate_engine::sluice::Cause;

/// The attribute that the rule of this name counts by and the request does not tell. To let such a request pass would
/// be to forget the limit for a slip of the pen. No rule has decided by then, so nothing was taken.
pub(crate) fn lacking<'o>(outcome: &'o Outcome, name: &str, request: &Request<'_>) -> Option<&'o Attribute> {
    if outcome.cause() != Cause::Rules || outcome.decisions().next().is_some() {
        return None;
    }
    let rule = outcome.rules().iter().find(|rule| rule.name == name)?;
    let params = Params::new();
    let applies = rule.when.as_ref().is_none_or(|when| when.holds(request, &params));
    let lacking = rule.key.iter().find(|part| request.value(&part.attribute, &params).is_none())?;
    applies.then_some(&lacking.attribute)
}
