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
mod shared;
mod source;
mod tree;

use std::path::Path;
use std::sync::Arc;

pub use diagnostic::{Diagnostic, Report, Severity, Style};
pub use grammar::{reference, schema};
pub use settings::Settings;
pub use shared::shared_text;
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
    read_text(path).and_then(|text| parse_at(path, &text))
}

/// The text of a rule file, if it can be one.
pub fn read_text(path: impl AsRef<Path>) -> Result<String, Report> {
    let path = path.as_ref();
    source::read(path).map_err(|error| unreadable(&path.to_string_lossy(), &error))
}

/// Reads a text as if it stood in this file: to know whether it could.
pub fn parse_at(path: impl AsRef<Path>, text: &str) -> Result<Loaded, Report> {
    let path = path.as_ref();
    understand(&path.to_string_lossy(), text, path.parent(), read::read)
}

/// Reads the text of a rule file. Files it names are not looked for.
pub fn parse(file_name: &str, text: &str) -> Result<Loaded, Report> {
    understand(file_name, text, None, read::read)
}

/// Reads the text of rules and lists that live in a store. Everything else is as in `base`, the settings of this
/// process.
///
/// ```
/// let base = sluicegate_config::parse("rules.yaml", "{ store: redis://127.0.0.1, rules_from: store }")?.settings;
/// let shared = sluicegate_config::parse_shared("version 2", "rules: [{ name: total, limits: [10/s] }]", &base)?;
/// assert_eq!((shared.settings.rules.len(), &shared.settings.store), (1, &base.store));
///
/// let report = sluicegate_config::parse_shared("version 3", "memory: 1GiB", &base).unwrap_err();
/// assert!(report.to_string().contains("stands in the file of each process"));
/// # Ok::<(), sluicegate_config::Report>(())
/// ```
pub fn parse_shared(name: &str, text: &str, base: &Settings) -> Result<Loaded, Report> {
    understand(name, text, None, |context, root| read::read_shared(context, root, base))
}

fn unreadable(name: &str, error: &ReadError) -> Report {
    let finding = Finding::whole(error.to_string()).help(error.remedy());
    Findings::from(finding).into_report(Arc::new(Source::new(name, "")))
}

fn understand(
    name: &str,
    text: &str,
    folder: Option<&Path>,
    read: impl for<'c> FnOnce(&'c read::Context<'c>, &'c tree::Node<'c>) -> Settings,
) -> Result<Loaded, Report> {
    if text.len() as u64 > LARGEST_FILE {
        return Err(unreadable(name, &ReadError::TooLarge));
    }
    let source = Arc::new(Source::new(name, text));
    let (tree, mut findings) = tree::parse(&source.text);
    let mut settings = Settings::default();
    match tree {
        Some(tree) if tree.value != tree::Value::Null => {
            let context = read::Context::new(&source.text, folder);
            settings = read(&context, &tree);
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
