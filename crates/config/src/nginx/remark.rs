//! What the importer has to say about single lines.

use std::fmt;
use std::sync::Arc;

use super::directive::Directive;

/// A line of an nginx file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The file, as it was named.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// What became of a directive, where it is not simply carried over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is not in the rule file.
    NotCarried,
    /// It is in the rule file, and means something slightly different there.
    Changed,
}

/// A directive that is not simply carried over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Where it stands.
    pub place: Place,
    /// The directive, shortened.
    pub directive: String,
    /// What became of it.
    pub fate: Fate,
    /// Why, and what to do instead.
    pub why: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = match self.fate {
            Fate::NotCarried => "not carried over",
            Fate::Changed => "note",
        };
        write!(f, "{}: {fate}: `{}`: {}", self.place, self.directive, self.why)
    }
}

/// All remarks of an import.
#[derive(Debug, Default)]
pub(super) struct Remarks {
    list: Vec<Remark>,
}

impl Remarks {
    pub(super) fn not_carried(&mut self, directive: &Directive, why: impl Into<String>) {
        self.add(directive, Fate::NotCarried, why.into());
    }

    pub(super) fn changed(&mut self, directive: &Directive, why: impl Into<String>) {
        self.add(directive, Fate::Changed, why.into());
    }

    fn add(&mut self, directive: &Directive, fate: Fate, why: String) {
        let remark = Remark { place: directive.place.clone(), directive: directive.to_string(), fate, why };
        if !self.list.contains(&remark) {
            self.list.push(remark);
        }
    }

    /// In the order of files and lines.
    pub(super) fn into_sorted(mut self) -> Vec<Remark> {
        self.list.sort_by(|a, b| a.place.cmp(&b.place));
        self.list
    }
}
