//! What a verified token says.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The claims of a token that was verified.
#[derive(Clone, Debug, PartialEq)]
pub struct JwtClaims(Map<String, Value>);

/// What claims must say for the token to hold.
#[derive(Clone, Debug, Default)]
pub(super) struct Demands {
    /// One of these has issued it; empty: anybody.
    pub(super) issuers: BTreeSet<String>,
    /// It is meant for one of these; empty: for anybody.
    pub(super) audiences: BTreeSet<String>,
    /// Seconds that clocks may differ.
    pub(super) leeway: f64,
    /// Whether it may hold for ever.
    pub(super) eternal: bool,
}

impl JwtClaims {
    pub(super) fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// A claim as text; lists, objects and null have none.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.0.get(name)? {
            Value::String(text) => Some(Cow::Borrowed(text)),
            Value::Number(number) => Some(Cow::Owned(number.to_string())),
            Value::Bool(true) => Some(Cow::Borrowed("true")),
            Value::Bool(false) => Some(Cow::Borrowed("false")),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Whether they meet the demands at `now`, in seconds of Unix time.
    pub(super) fn meet(&self, demands: &Demands, now: f64) -> bool {
        let expiry_holds = match self.0.get("exp") {
            Some(expiry) => expiry.as_f64().is_some_and(|expiry| now < expiry + demands.leeway),
            None => demands.eternal,
        };
        let begun =
            self.0.get("nbf").is_none_or(|start| start.as_f64().is_some_and(|start| start <= now + demands.leeway));
        expiry_holds
            && begun
            && (demands.issuers.is_empty()
                || self.0.get("iss").is_some_and(|issuer| is_one_of(issuer, &demands.issuers)))
            && (demands.audiences.is_empty()
                || match self.0.get("aud") {
                    Some(Value::Array(audiences)) => audiences.iter().any(|one| is_one_of(one, &demands.audiences)),
                    Some(audience) => is_one_of(audience, &demands.audiences),
                    None => false,
                })
    }
}

fn is_one_of(claim: &Value, allowed: &BTreeSet<String>) -> bool {
    claim.as_str().is_some_and(|text| allowed.contains(text))
}
