//! nginx's configuration, made into a rule file.
//!
//! A configuration passes through in one straight line: files (with what they include), words,
//! directives, what is in force in each server and location, and from there two ways: the limits become
//! rules, and servers, locations and upstreams become the gateway. Whatever is not carried over, or means
//! something slightly different here, is remarked upon with its line; nothing is left out in silence
//! unless it makes no difference.
//!
//! ```no_run
//! let imported = sluicegate_config::nginx::import("/etc/nginx/nginx.conf")?;
//! for remark in &imported.remarks {
//!     eprintln!("{remark}");
//! }
//! std::fs::write("rules.yaml", imported.yaml)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod condition;
mod directive;
mod force;
mod gateway;
mod include;
mod known;
mod limits;
mod listen;
mod nested;
mod remark;
mod routes;
mod site;
mod token;
mod unit;
mod upstream;
mod variable;
mod walk;
mod yaml;

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

pub use remark::{Fate, Place, Remark};

use directive::Directive;
use remark::Remarks;
use walk::Walk;

/// A rule file made of an nginx configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The rule file's text. Comments say which line each thing comes from.
    pub yaml: String,
    /// What is not simply carried over, in the order of files and lines.
    pub remarks: Vec<Remark>,
}

impl Imported {
    /// How many directives are not carried over.
    pub fn not_carried(&self) -> usize {
        self.remarks.iter().filter(|remark| remark.fate == Fate::NotCarried).count()
    }
}

/// Why a configuration cannot be imported at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("{file} cannot be read: {why}")]
    Unreadable {
        /// The file.
        file: Arc<str>,
        /// Why not.
        why: String,
    },
    /// A file is no nginx configuration.
    #[error("{place}: {what}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong, and the remedy.
        what: String,
    },
}

/// Reads an nginx configuration, with the files it includes, and makes a rule file of it.
pub fn import(path: impl AsRef<Path>) -> Result<Imported, ImportError> {
    let path = path.as_ref();
    let mut remarks = Remarks::default();
    let directives = include::read(path, &mut remarks)?;
    Ok(converted(&path.to_string_lossy(), &directives, remarks))
}

/// Makes a rule file of the text of one nginx file. What it includes is not looked for.
pub fn convert(file_name: &str, text: &str) -> Result<Imported, ImportError> {
    let directives = directive::parse(&file_name.into(), text)?;
    Ok(converted(file_name, &directives, Remarks::default()))
}

fn converted(name: &str, directives: &[Directive], mut remarks: Remarks) -> Imported {
    let yaml = Walk::through(directives, &mut remarks).written(name);
    Imported { yaml, remarks: remarks.into_sorted() }
}
