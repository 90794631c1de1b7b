//! Finds a key attribute that is missing from a request.

use sluicegate_engine::Outcome;
use sluicegate_engine::rule::{Attribute, Params, Request};
use sluicegate_engine::sluice::Cause;

/// Returns the key attribute of the named rule that the request lacks. Admitting such a request would silently
/// skip the limit after a typing error. No rule has decided at this point, so nothing was consumed.
pub(crate) fn missing_key_attribute<'o>(
    outcome: &'o Outcome,
    name: &str,
    request: &Request<'_>,
) -> Option<&'o Attribute> {
    if outcome.cause() != Cause::Rules || outcome.decisions().next().is_some() {
        return None;
    }
    let rule = outcome.rules().iter().find(|rule| rule.name == name)?;
    let params = Params::new();
    let applies = rule.when.as_ref().is_none_or(|when| when.holds(request, &params));
    let missing = rule.key.iter().find(|part| request.value(&part.attribute, &params).is_none())?;
    applies.then_some(&missing.attribute)
}
