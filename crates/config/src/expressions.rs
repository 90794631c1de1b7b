//! Attributes, conditions and targets, parsed by the engine.
//!
//! The engine owns these languages, because rules are also built without a file. This module calls its
//! parsers and converts their errors to one form: offset, length and message.

use sluicegate_engine::rule::{Attribute, Expr, Target};

/// A syntax error in an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    /// Byte offset in the text.
    pub(crate) at: usize,
    /// Length in bytes.
    pub(crate) len: usize,
    pub(crate) message: String,
}

pub(crate) fn attribute(text: &str) -> Result<Attribute, SyntaxError> {
    text.parse::<Attribute>().map_err(|error| SyntaxError { at: 0, len: text.len(), message: error.to_string() })
}

pub(crate) fn condition(text: &str) -> Result<Expr, SyntaxError> {
    Expr::parse(text).map_err(|error| SyntaxError { at: error.at, len: error.len, message: error.message })
}

pub(crate) fn target(text: &str) -> Result<Target, SyntaxError> {
    Target::parse(text).map_err(|error| SyntaxError { at: error.at, len: error.len, message: error.message })
}

/// Parses `head['name']`, with the quoting rules of attributes; `None` if the text has another form.
pub(crate) fn bracketed(text: &str) -> Option<(&str, String)> {
    let (head, rest) = text.split_once('[')?;
    match format!("query[{rest}").parse() {
        Ok(Attribute::Query(name)) => Some((head.trim(), name)),
        _ => None,
    }
}
