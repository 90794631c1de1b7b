//! Importer for nginx configurations: converts them to a rule file.
//!
//! Stages: files with their includes, tokens, directives, and the directives in effect in each server and
//! location. Limits become rules; servers, locations and upstreams become the gateway. Every directive that
//! is not converted, or has a slightly different meaning, gets a note with its line, unless it makes no
//! difference.
//!
//! ```no_run
//! let imported = sluicegate_import::nginx::import("/etc/nginx/nginx.conf")?;
//! for note in &imported.notes {
//!     eprintln!("{note}");
//! }
//! std::fs::write("rules.yaml", imported.yaml)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod condition;
mod context;
mod convert;
mod directive;
mod exclusion;
mod gateway;
mod include;
mod limits;
mod listen;
mod note;
mod routes;
mod server;
mod token;
mod unit;
mod unsupported;
mod upstream;
mod variable;
mod yaml;

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

pub use note::{Disposition, Note, SourceLocation};

use convert::Converter;
use directive::Directive;
use note::Notes;

/// A rule file converted from an nginx configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedConfig {
    /// Text of the rule file. Comments name the source lines.
    pub yaml: String,
    /// Notes on directives that are not converted as they are, by file and line.
    pub notes: Vec<Note>,
}

impl ImportedConfig {
    /// Number of directives that are not converted.
    pub fn unsupported_count(&self) -> usize {
        self.notes.iter().filter(|note| note.disposition == Disposition::Unsupported).count()
    }
}

/// Error that prevents an import.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("cannot read {file}: {reason}")]
    Unreadable {
        /// The file.
        file: Arc<str>,
        /// The reason.
        reason: String,
    },
    /// A file is not a valid nginx configuration.
    #[error("{location}: {message}")]
    Syntax {
        /// Location of the error.
        location: SourceLocation,
        /// The error and its remedy.
        message: String,
    },
}

/// Imports an nginx configuration with its includes.
pub fn import(path: impl AsRef<Path>) -> Result<ImportedConfig, ImportError> {
    let path = path.as_ref();
    let mut notes = Notes::default();
    let directives = include::read(path, &mut notes)?;
    Ok(convert_directives(&path.to_string_lossy(), &directives, notes))
}

/// Converts the text of one nginx file. Includes are not followed.
pub fn convert(file_name: &str, text: &str) -> Result<ImportedConfig, ImportError> {
    let directives = directive::parse(&file_name.into(), text)?;
    Ok(convert_directives(file_name, &directives, Notes::default()))
}

fn convert_directives(name: &str, directives: &[Directive], mut notes: Notes) -> ImportedConfig {
    let yaml = Converter::collect(directives, &mut notes).into_yaml(name);
    ImportedConfig { yaml, notes: notes.into_sorted() }
}
