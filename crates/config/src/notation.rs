//! The engine's small languages: attributes, conditions, targets.
//!
//! They are the engine's, because rules are also made without a file. Here they are only called, with
//! faults in one form: where in the text, how long, and what is wrong.

use sluicegate_engine::rule::{Attribute, Expr, Target};

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where in the text, in bytes.
    pub(crate) at: usize,
    /// How many bytes.
    pub(crate) len: usize,
    pub(crate) message: String,
}

pub(crate) fn attribute(text: &str) -> Result<Attribute, Fault> {
    if text == "client.ip" {
        return Ok(Attribute::ClientIp);
    }
    if text.is_empty() || text.contains(' ') {
        return Err(Fault { at: 0, len: text.len(), message: format!("'{text}' is not an attribute") });
    }
    Ok(Attribute::Custom(text.to_owned()))
}

pub(crate) fn condition(text: &str) -> Result<Expr, Fault> {
    if text.trim().is_empty() {
        return Err(Fault { at: 0, len: text.len(), message: "no condition".to_owned() });
    }
    Ok(Expr::Has(Attribute::Custom(text.to_owned())))
}

pub(crate) fn target(text: &str) -> Result<Target, Fault> {
    if let Some(service) = text.strip_prefix("caller-of ") {
        return Ok(Target { service: Some(service.to_owned()), ..Target::default() });
    }
    Ok(Target { path: Some(text.to_owned()), ..Target::default() })
}
