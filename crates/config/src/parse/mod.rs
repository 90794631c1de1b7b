//! Converts the YAML tree to settings.
//!
//! Every parser continues after an error, so that one run reports all of them: it reports the error and
//! returns `None`, and the caller continues with the next field. The [grammar](crate::grammar) defines the
//! allowed fields; the functions here convert values to types.

mod adaptive;
mod admin;
mod cost;
mod file;
mod gateway;
mod host;
mod limit;
mod listener;
mod log;
mod map;
mod on_limit;
mod paths;
mod reply;
mod rule;
mod server;
mod store;
mod value;

use std::cell::RefCell;
use std::path::Path;

use sluicegate_engine::LimitError;

use crate::diagnostic::{DiagnosticBuilder, DiagnosticSink};
use crate::source::Span;
use crate::tree::{Node, Value};

pub use file::MAX_RULES;
pub(crate) use file::{ParsedFile, parse_file, parse_shared_rules};
pub use limit::limit;
pub use map::FieldMap;
pub use reply::json;
pub use rule::MAX_LIMITS;
pub(crate) use rule::{ParsedRule, RuleSpans};
pub use value::FieldValue;

/// Shared state of the parsers.
#[derive(Debug)]
pub struct ParseContext<'s> {
    /// The file's text.
    pub text: &'s str,
    /// Base directory of files named in the rule file; `None` if they are not opened.
    pub(crate) folder: Option<&'s Path>,
    /// Diagnostics reported so far.
    pub findings: RefCell<DiagnosticSink>,
    /// Fields read so far, by section; tests of a grammar compare them with its tables.
    #[cfg(any(test, feature = "test-support"))]
    pub requested_fields: RefCell<std::collections::BTreeSet<(&'static str, &'static str)>>,
}

impl<'s> ParseContext<'s> {
    /// A context without diagnostics. Files are relative to `folder`, and not opened if it is `None`.
    pub fn new(text: &'s str, folder: Option<&'s Path>) -> Self {
        Self {
            text,
            folder,
            findings: RefCell::default(),
            #[cfg(any(test, feature = "test-support"))]
            requested_fields: RefCell::default(),
        }
    }

    /// Reports a diagnostic.
    pub fn report(&self, finding: DiagnosticBuilder) {
        self.findings.borrow_mut().push(finding);
    }

    /// Reports an invalid limit.
    pub fn report_limit(&self, span: Span, error: &LimitError, remedy: impl Fn() -> String) {
        let (message, help) = split_help(&error.to_string());
        self.report(DiagnosticBuilder::error(span, message).label("invalid").help(help.unwrap_or_else(remedy)));
    }

    /// Span of a part of a text value. For a text with escapes or several lines, the span of the entire value.
    pub(crate) fn subspan(&self, node: &Node<'_>, at: usize, len: usize) -> Span {
        let Value::Text(text) = &node.value else { return node.span };
        let written = self.text.get(node.span.start..node.span.end).unwrap_or_default();
        let indent = match written.find(&**text) {
            Some(indent @ 0..=1) if at <= text.len() => indent,
            _ => return node.span,
        };
        let start = node.span.start + indent + at;
        let end = (start + len).min(node.span.start + indent + text.len());
        Span::new(start, end.max(start))
    }
}

/// Splits `message: help`.
fn split_help(message: &str) -> (String, Option<String>) {
    match message.rsplit_once(": ") {
        Some((message, help)) => (message.to_owned(), Some(help.to_owned())),
        None => (message.to_owned(), None),
    }
}
