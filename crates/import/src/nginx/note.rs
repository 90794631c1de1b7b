//! Notes of the importer about single directives.

use std::fmt;
use std::sync::Arc;

use super::directive::Directive;

/// A line of an nginx file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceLocation {
    /// File name, as passed in.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Result of the conversion of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Not converted.
    Unsupported,
    /// Converted with a slightly different meaning.
    Changed,
}

/// A note about one directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Location of the directive.
    pub location: SourceLocation,
    /// The directive, truncated.
    pub directive: String,
    /// Result of the conversion.
    pub disposition: Disposition,
    /// The reason, and the alternative.
    pub reason: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let result = match self.disposition {
            Disposition::Unsupported => "not converted",
            Disposition::Changed => "note",
        };
        write!(f, "{}: {result}: `{}`: {}", self.location, self.directive, self.reason)
    }
}

/// All notes of an import.
#[derive(Debug, Default)]
pub(super) struct Notes {
    list: Vec<Note>,
}

impl Notes {
    pub(super) fn unsupported(&mut self, directive: &Directive, reason: impl Into<String>) {
        self.add(directive, Disposition::Unsupported, reason.into());
    }

    pub(super) fn changed(&mut self, directive: &Directive, reason: impl Into<String>) {
        self.add(directive, Disposition::Changed, reason.into());
    }

    fn add(&mut self, directive: &Directive, disposition: Disposition, reason: String) {
        let note = Note { location: directive.location.clone(), directive: directive.to_string(), disposition, reason };
        if !self.list.contains(&note) {
            self.list.push(note);
        }
    }

    /// Returns the notes, sorted by file and line.
    pub(super) fn into_sorted(mut self) -> Vec<Note> {
        self.list.sort_by(|a, b| a.location.cmp(&b.location));
        self.list
    }
}
