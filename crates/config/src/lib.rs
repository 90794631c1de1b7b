//! Sluicegate's rule file: YAML in, checked settings out.
//!
//! A file is read in one straight line: text ([`load`] reads it with a cap), a tree in which every key
//! and value knows its place, [`Settings`] made of it, and warnings about what works but is probably
//! not meant. A file with a fault is refused whole, with *all* its faults: each with file, line, column,
//! the nearest known word and the remedy.
//!
//! ```
//! let loaded = sluicegate_config::parse("rules.yaml", "
//! rules:
//!   - name: per-ip
//!     key: client.ip
//!     limits: [300/1m, 100/5s]
//! ")?;
//! assert_eq!(loaded.settings.rules[0].limits.len(), 2);
//!
//! let report = sluicegate_config::parse("rules.yaml", "rules: [{ name: total, limit: [10/s] }]").unwrap_err();
//! assert!(report.to_string().contains("did you mean `limits`?"));
//! # Ok::<(), sluicegate_config::Report>(())
//! ```
//!
//! Which fields there are is said once, in tables; the [JSON schema](schema()) for editors and the
//! [reference](reference()) are made from the same tables the reader asks.

pub mod diagnostic;
mod grammar;
mod lint;
pub mod nginx;
mod notation;
pub mod ratelimit;
mod read;
pub mod settings;
mod source;
mod tree;

use std::path::Path;
use std::sync::Arc;

pub use diagnostic::{Diagnostic, Report, Severity, Style};
pub use grammar::{reference, schema};
pub use settings::Settings;
pub use source::{LARGEST_FILE, Span};

use diagnostic::{Finding, Findings};
use source::{ReadError, Source};

/// A rule file that can be used.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it says.
    pub settings: Settings,
    /// What is probably not meant; empty for a good file.
    pub warnings: Report,
}

/// Reads a rule file. Files it names are looked for relative to its folder.
pub fn load(path: impl AsRef<Path>) -> Result<Loaded, Report> {
    let path = path.as_ref();
    let name = path.to_string_lossy();
    match source::read(path) {
        Ok(text) => understand(&name, text, path.parent()),
        Err(error) => Err(unreadable(&name, &error)),
    }
}

/// Reads the text of a rule file. Files it names are not looked for.
pub fn parse(file_name: &str, text: &str) -> Result<Loaded, Report> {
    if text.len() as u64 > LARGEST_FILE {
        return Err(unreadable(file_name, &ReadError::TooLarge));
    }
    understand(file_name, text.to_owned(), None)
}

fn unreadable(name: &str, error: &ReadError) -> Report {
    let finding = Finding::whole(error.to_string()).help(error.remedy());
    Findings::from(finding).into_report(Arc::new(Source::new(name, "")))
}

fn understand(name: &str, text: String, folder: Option<&Path>) -> Result<Loaded, Report> {
    let source = Arc::new(Source::new(name, text));
    let (tree, mut findings) = tree::parse(&source.text);
    let mut settings = Settings::default();
    match tree {
        Some(tree) if tree.value != tree::Value::Null => {
            let context = read::Context::new(&source.text, folder);
            settings = read::read(&context, &tree);
            findings.append(context.findings.into_inner());
        }
        _ if !findings.has_errors() => findings.push(
            Finding::whole("the file is empty")
                .help("add a rule: `rules: [{ name: total, limits: [1000/s] }]`; for none, write `rules: []`"),
        ),
        _ => {}
    }
    let refused = findings.has_errors();
    let report = findings.into_report(source);
    if refused { Err(report) } else { Ok(Loaded { settings, warnings: report }) }
}
