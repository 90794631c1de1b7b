//! Claims of a verified JWT and the requirements on them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Claims of a verified token.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtClaims(Map<String, Value>);

/// Requirements on the claims of a valid token.
#[derive(Clone, Debug, Default)]
pub(super) struct ClaimRequirements {
    /// Accepted issuers; empty accepts any.
    pub(super) issuers: BTreeSet<String>,
    /// Accepted audiences; empty accepts any.
    pub(super) audiences: BTreeSet<String>,
    /// Allowed clock skew in seconds.
    pub(super) leeway: f64,
    /// If set, tokens without `exp` are accepted.
    pub(super) allow_no_expiry: bool,
}

impl JwtClaims {
    pub(super) fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// Returns a claim as text; lists, objects and null have no text form.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.0.get(name)? {
            Value::String(text) => Some(Cow::Borrowed(text)),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            Value::Bool(true) => Some(Cow::Borrowed("true")),
            Value::Bool(false) => Some(Cow::Borrowed("false")),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// True if the claims meet the requirements at `now`, in seconds of Unix time.
    pub(super) fn satisfy(&self, requirements: &ClaimRequirements, now: f64) -> bool {
        let expiry_holds = match self.0.get("exp") {
            Some(expiry) => expiry.as_f64().is_some_and(|expiry| now < expiry + requirements.leeway),
            None => requirements.allow_no_expiry,
        };
        let begun = self
            .0
            .get("nbf")
            .is_none_or(|start| start.as_f64().is_some_and(|start| start <= now + requirements.leeway));
        expiry_holds
            && begun
            && (requirements.issuers.is_empty()
                || self.0.get("iss").is_some_and(|issuer| is_one_of(issuer, &requirements.issuers)))
            && (requirements.audiences.is_empty()
                || match self.0.get("aud") {
                    Some(Value::Array(audiences)) => {
                        audiences.iter().any(|one| is_one_of(one, &requirements.audiences))
                    }
                    Some(audience) => is_one_of(audience, &requirements.audiences),
                    None => false,
                })
    }
}

fn is_one_of(claim: &Value, allowed: &BTreeSet<String>) -> bool {
    claim.as_str().is_some_and(|text| allowed.contains(text))
}
