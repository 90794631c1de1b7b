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
    text.parse::<Attribute>().map_err(|error| Fault { at: 0, len: text.len(), message: error.to_string() })
}

pub(crate) fn condition(text: &str) -> Result<Expr, Fault> {
    Expr::parse(text).map_err(|error| Fault { at: error.at, len: error.len, message: error.message })
}

pub(crate) fn target(text: &str) -> Result<Target, Fault> {
    Target::parse(text).map_err(|error| Fault { at: error.at, len: error.len, message: error.message })
}

/// Reads `head['name']`, with the same quotes as attributes have; `None` if it is not written so.
pub(crate) fn bracketed(text: &str) -> Option<(&str, String)> {
    let (head, rest) = text.split_once('[')?;
    match format!("query[{rest}").parse() {
        Ok(Attribute::Query(name)) => Some((head.trim(), name)),
        _ => None,
    }
}
