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
mod notation;
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

use diagnostic::Finding;
use source::Source;

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
        Err(error) => {
            let finding = Finding::whole(error.to_string()).help(error.remedy());
            Err(Report::new(Arc::new(Source::new(name, "")), vec![finding]))
        }
    }
}

/// Reads the text of a rule file. Files it names are not looked for.
pub fn parse(file_name: &str, text: &str) -> Result<Loaded, Report> {
    if text.len() as u64 > LARGEST_FILE {
        let error = source::ReadError::TooLarge;
        let finding = Finding::whole(error.to_string()).help(error.remedy());
        return Err(Report::new(Arc::new(Source::new(file_name, "")), vec![finding]));
    }
    understand(file_name, text.to_owned(), None)
}

fn understand(name: &str, text: String, folder: Option<&Path>) -> Result<Loaded, Report> {
    let source = Arc::new(Source::new(name, text));
    let (tree, mut findings) = tree::parse(&source.text);
    let mut settings = Settings::default();
    match tree {
        Some(tree) if tree.value != tree::Value::Null => {
            let context = read::Context::new(&source.text, folder);
            settings = read::read(&context, &tree);
            findings.extend(context.findings.into_inner());
        }
        _ if findings.is_empty() => findings.push(
            Finding::whole("the file is empty")
                .help("add a rule: `rules: [{ name: total, limits: [1000/s] }]`; for none, write `rules: []`"),
        ),
        _ => {}
    }
    let (errors, warnings): (Vec<_>, Vec<_>) = findings.into_iter().partition(Finding::is_error);
    if errors.is_empty() {
        Ok(Loaded { settings, warnings: Report::new(source, warnings) })
    } else {
        Err(Report::new(source, errors))
    }
}
