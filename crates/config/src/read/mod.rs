//! From the tree to settings.
//!
//! Every reader goes on after a fault, so that one run finds all of them: it reports what is wrong and
//! answers `None`, and whoever called it goes on with the next field. What may stand where is asked of
//! the [grammar](crate::grammar); the functions here only turn it into types.

mod adaptive;
mod admin;
mod beside;
mod cost;
mod fields;
mod file;
mod gateway;
mod host;
mod item;
mod limit;
mod listener;
mod log;
mod on_limit;
mod reply;
mod rule;
mod server;
mod store;

use std::cell::RefCell;
use std::path::Path;

use sluicegate_engine::LimitError;

use crate::diagnostic::{Finding, Findings};
use crate::source::Span;
use crate::tree::{Node, Value};

pub(crate) use fields::Fields;
pub(crate) use file::{MOST_RULES, read, read_shared};
pub(crate) use item::Item;
pub(crate) use limit::{limit, short_form};
pub(crate) use reply::json;
pub(crate) use rule::{MOST_LIMITS, Places, ReadRule};

/// What all readers share.
pub(crate) struct Context<'s> {
    /// The file's text.
    pub(crate) text: &'s str,
    /// Where files are looked for that the rule file names; `None` leaves them alone.
    pub(crate) folder: Option<&'s Path>,
    pub(crate) findings: RefCell<Findings>,
    /// Which fields were asked for, by section: the grammar's test compares them with the tables.
    #[cfg(test)]
    pub(crate) asked: RefCell<std::collections::BTreeSet<(&'static str, &'static str)>>,
}

impl<'s> Context<'s> {
    pub(crate) fn new(text: &'s str, folder: Option<&'s Path>) -> Self {
        Self {
            text,
            folder,
            findings: RefCell::default(),
            #[cfg(test)]
            asked: RefCell::default(),
        }
    }

    pub(crate) fn report(&self, finding: Finding) {
        self.findings.borrow_mut().push(finding);
    }

    /// Reports numbers that make no limit.
    pub(crate) fn report_limit(&self, span: Span, error: &LimitError, remedy: impl Fn() -> String) {
        let (message, help) = halves(&error.to_string());
        self.report(Finding::error(span, message).label("here").help(help.unwrap_or_else(remedy)));
    }

    /// The place of a part of a text. A text that is not written in the file as it reads (escapes,
    /// several lines) is pointed at as a whole.
    pub(crate) fn within(&self, node: &Node<'_>, at: usize, len: usize) -> Span {
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

/// Splits `what is wrong: what to do`.
fn halves(message: &str) -> (String, Option<String>) {
    match message.rsplit_once(": ") {
        Some((what, remedy)) => (what.to_owned(), Some(remedy.to_owned())),
        None => (message.to_owned(), None),
    }
}

/// The known word nearest to one that is not known, if any is near.
pub(crate) fn nearest<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    if word.len() > 64 {
        return None;
    }
    let folded = word.to_lowercase().replace('-', "_");
    known
        .map(|candidate| (strsim::osa_distance(&folded, &candidate.to_lowercase().replace('-', "_")), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .min()
        .map(|(_, candidate)| candidate)
}
