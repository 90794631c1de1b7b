//! Input and result types of the rule manager.

use std::fmt;
use std::path::PathBuf;
use std::time::SystemTime;

use sluicegate_config::{Diagnostic, Report};
use thiserror::Error;

/// Origin of the rules' text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulesOrigin {
    /// Built in: no file was given.
    BuiltIn,
    /// This file.
    File(PathBuf),
    /// The store, for the whole cluster; all other settings are in this file.
    Store(PathBuf),
}

/// Reload status of the rules in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadStatus {
    /// Origin of their text.
    pub origin: RulesOrigin,
    /// Version of the text. In a cluster every process uses the same number for a text.
    pub version: u64,
    /// Time at which it was applied.
    pub loaded_at: SystemTime,
    /// Number of texts applied since the start.
    pub reloads: u64,
    /// Number of texts that were rejected or could not be read.
    pub failed_reloads: u64,
    /// Error of the last text, unless it is in force.
    pub last_error: Option<ReloadError>,
    /// Changed sections of the file that take effect at the next restart.
    pub pending_restart: Vec<String>,
}

/// Error of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadError {
    /// Time of the error.
    pub at: SystemTime,
    /// Human-readable message; may have several lines.
    pub message: String,
}

/// The text in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesSource {
    /// The text.
    pub text: String,
    /// Its origin.
    pub origin: RulesOrigin,
    /// Its version.
    pub version: u64,
    /// Reason for which it cannot be changed here, if it is read-only.
    pub read_only_reason: Option<ReadOnlyReason>,
}

/// Reason for which a text cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOnlyReason {
    /// The rules are built in.
    BuiltIn,
    /// The file cannot be found.
    Missing {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        error: String,
    },
    /// The permissions of the file do not allow writing.
    Permissions {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Display for ReadOnlyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => {
                f.write_str("the built-in rules are read-only: write them to a file and start `sluicegate run FILE`")
            }
            Self::Missing { path, error } => write!(f, "cannot find {}: {error}", path.display()),
            Self::Permissions { path } => write!(f, "{} is read-only: edit its source", path.display()),
        }
    }
}

/// Result of checking a text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CheckResult {
    /// Errors; empty if the text could be applied.
    pub errors: Vec<RuleDiagnostic>,
    /// Likely mistakes.
    pub warnings: Vec<RuleDiagnostic>,
}

/// One diagnostic of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleDiagnostic {
    /// Line, from 1; 0 if it concerns the whole text.
    pub line: usize,
    /// Column in characters, from 1; 0 if it concerns the whole text.
    pub column: usize,
    /// The message.
    pub message: String,
    /// Suggested remedy.
    pub help: Option<String>,
}

impl From<&Diagnostic> for RuleDiagnostic {
    fn from(diagnostic: &Diagnostic) -> Self {
        let Diagnostic { line, column, message, help, .. } = diagnostic;
        Self { line: *line, column: *column, message: message.clone(), help: help.clone() }
    }
}

impl fmt::Display for RuleDiagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, message, help } = self;
        if *line > 0 {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(message)?;
        help.as_ref().map_or(Ok(()), |help| write!(f, " ({help})"))
    }
}

impl RuleDiagnostic {
    /// Converts all diagnostics of a report.
    pub fn from_report(report: &Report) -> Vec<Self> {
        report.diagnostics().iter().map(Self::from).collect()
    }

    /// Creates a diagnostic for the whole text.
    pub fn for_whole_text(message: impl Into<String>) -> Self {
        Self { line: 0, column: 0, message: message.into(), help: None }
    }
}

/// A text to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesEdit {
    /// The text.
    pub text: String,
    /// Version it was derived from; if another one is in force, nothing changes. `None` to overwrite any
    /// version.
    pub based_on: Option<u64>,
    /// Author of the change.
    pub author: String,
    /// Comment on the change.
    pub comment: String,
}

/// Result of an applied change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedRules {
    /// Its version.
    pub version: u64,
    /// Likely mistakes in it.
    pub warnings: Vec<RuleDiagnostic>,
    /// Changed sections that take effect at the next restart.
    pub pending_restart: Vec<String>,
}

/// Error applying a text. The rules in force stay.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EditError {
    /// The text has errors.
    #[error("{}", summary(.0))]
    Invalid(Vec<RuleDiagnostic>),
    /// Another version is in force.
    #[error("version {present} is active, not the one this edit is based on: merge it and try again")]
    StaleVersion {
        /// The version in force.
        present: u64,
    },
    /// There is no such version.
    #[error("unknown version {number}: it never existed or has been evicted from the history")]
    NoSuchVersion {
        /// The requested version.
        number: u64,
    },
    /// The text is read-only.
    #[error("{0}")]
    ReadOnly(String),
    /// The text cannot be read or stored.
    #[error("{0}")]
    Unavailable(String),
}

/// The first error, and the number of further ones.
fn summary(errors: &[RuleDiagnostic]) -> String {
    match errors {
        [] => "invalid rules".to_owned(),
        [error] => error.to_string(),
        [first, more @ ..] => format!("{first}; and {} more", more.len()),
    }
}

/// A text that is or was in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesVersion {
    /// Version number.
    pub number: u64,
    /// Time at which it was applied.
    pub at: SystemTime,
    /// Its author.
    pub author: String,
    /// Its comment.
    pub comment: String,
    /// Size of the text in bytes.
    pub bytes: u64,
    /// True if it is in force.
    pub is_current: bool,
}

/// Author and comment of the first version in a process.
pub(super) const START: (&str, &str) = ("start", "program start");

/// Author and comment of rules that were reloaded from the file.
pub(super) const FILE_RELOAD: (&str, &str) = ("file", "reloaded from the file");

/// Author and comment of the first version in a store.
pub(super) const SEED: (&str, &str) = ("start", "rules from the file of the first process");

/// Author and comment of a rollback.
pub(super) const ROLLBACK: (&str, &str) = ("sluicegate", "rollback: the file could not be written");

/// Comment of a restored version, before its number.
pub(super) const RESTORE_PREFIX: &str = "restored version ";

/// A change that the program describes itself, because its author gave no comment or there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownChange {
    /// The program started with this text.
    Start,
    /// The file was reloaded.
    File,
    /// The first process of a cluster wrote the text of its file to the store.
    Seed,
    /// A change was rolled back because the file could not be written.
    Rollback,
    /// An earlier version was restored.
    Restore {
        /// Number of the restored version.
        version: u64,
    },
}

impl RulesVersion {
    /// Returns the change if the program has described it itself.
    pub(crate) fn known_change(&self) -> Option<KnownChange> {
        match (self.author.as_str(), self.comment.as_str()) {
            START => Some(KnownChange::Start),
            FILE_RELOAD => Some(KnownChange::File),
            SEED => Some(KnownChange::Seed),
            ROLLBACK => Some(KnownChange::Rollback),
            (_, comment) => {
                let version = comment.strip_prefix(RESTORE_PREFIX)?.parse().ok()?;
                Some(KnownChange::Restore { version })
            }
        }
    }
}
