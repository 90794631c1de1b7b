//! What a keeper is told, and what it tells.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use sluicegate_config::{Diagnostic, Report};
use thiserror::Error;

/// Where the text of the rules lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the program: nobody gave a file.
    BuiltIn,
    /// In this file.
    File(PathBuf),
    /// In the store, for the whole fleet; what else is to be set stands in this file.
    Store(PathBuf),
}

/// How the rules in force came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Where their text lives.
    pub origin: Origin,
    /// The version of the text. In a fleet every process gives a text the same number.
    pub version: u64,
    /// Since when it is in force.
    pub loaded_at: SystemTime,
    /// How often another text was put in force.
    pub reloads: u64,
    /// How often a text was refused, or could not be had.
    pub failed_reloads: u64,
    /// What went wrong with the last text that came, unless it is in force.
    pub trouble: Option<Trouble>,
    /// Sections of the file that have changed and take effect with the next restart.
    pub pending_restart: Vec<String>,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// When.
    pub at: SystemTime,
    /// What, for people: may have several lines.
    pub message: String,
}

/// The text in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The text.
    pub text: String,
    /// Where it lives.
    pub origin: Origin,
    /// Its version.
    pub version: u64,
    /// Why it cannot be changed from here, if so.
    pub why_not: Option<String>,
}

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Checked {
    /// Why it is refused; empty for a text that could be put in force.
    pub faults: Vec<Fault>,
    /// What is probably not meant.
    pub warnings: Vec<Fault>,
}

/// One thing found in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; 0 if it is about the text as a whole.
    pub line: usize,
    /// The column, from 1, in characters; 0 if it is about the text as a whole.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The remedy.
    pub help: Option<String>,
}

impl From<&Diagnostic> for Fault {
    fn from(found: &Diagnostic) -> Self {
        let Diagnostic { line, column, message, help, .. } = found;
        Self { line: *line, column: *column, message: message.clone(), help: help.clone() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, message, help } = self;
        if *line > 0 {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(message)?;
        help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

impl Fault {
    /// All that a report has.
    pub fn all(report: &Report) -> Vec<Self> {
        report.diagnostics().iter().map(Self::from).collect()
    }

    /// One about the text as a whole.
    pub fn whole(message: impl Into<String>) -> Self {
        Self { line: 0, column: 0, message: message.into(), help: None }
    }
}

/// A text to be put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The text.
    pub text: String,
    /// The version it was made from; if another is in force by now, nothing is changed. `None`: whatever is.
    pub based_on: Option<u64>,
    /// Who made it.
    pub author: String,
    /// Why.
    pub comment: String,
}

/// A text that was put in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Its version.
    pub version: u64,
    /// What is probably not meant in it.
    pub warnings: Vec<Fault>,
    /// Sections that have changed and take effect with the next restart.
    pub pending_restart: Vec<String>,
}

/// Why a text was not put in force. The rules in force go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It has faults.
    #[error("{}", counted(.0))]
    Faulty(Vec<Fault>),
    /// Another version is in force by now.
    #[error("version {present} is in force, not the one this was made from: look at it, and try again")]
    Overtaken {
        /// The version in force.
        present: u64,
    },
    /// There is no such version.
    #[error("there is no version {number}: it was never there, or so many came after it that it was forgotten")]
    NoSuchVersion {
        /// The number asked for.
        number: u64,
    },
    /// The text cannot be changed from here.
    #[error("{0}")]
    NotEditable(String),
    /// It cannot be read or kept.
    #[error("{0}")]
    Unavailable(String),
}

/// The first fault, and how many more there are.
fn counted(faults: &[Fault]) -> String {
    match faults {
        [] => "the rules have faults".to_owned(),
        [fault] => fault.to_string(),
        [first, more @ ..] => format!("{first}; and {} more", more.len()),
    }
}

/// A text that was in force at some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its number.
    pub number: u64,
    /// Since when.
    pub at: SystemTime,
    /// Who made it.
    pub author: String,
    /// Why.
    pub comment: String,
    /// How long the text is.
    pub bytes: u64,
    /// Whether it is in force.
    pub is_current: bool,
}
