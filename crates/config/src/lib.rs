//! Parser for Sluicegate's rule file: YAML in, validated settings out.
//!
//! A file passes these stages: text ([`load`] reads it with a size limit), a YAML tree with a span for every
//! key and value, [`Settings`], and lints for files that are valid but probably not as intended. A file with
//! an error is refused, and *all* its errors are reported, each with file, line, column, the
//! nearest known word and the remedy.
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
//! Modules, each depending only on those above it:
//!
//! - `source`: file reading, lines and columns.
//! - [`diagnostic`]: errors and warnings, and their rendering.
//! - `tree`: YAML tree with spans.
//! - `grammar`: declared sections and fields; generates the [JSON schema](schema()) and the
//!   [reference](reference()).
//! - [`settings`]: the validated settings.
//! - `expressions`: attributes, conditions and targets, parsed by the engine.
//! - `parse`: converts the tree to settings.
//! - `lint`: warnings, and errors that span several fields.
//! - [`document`]: the parts of the parser that other YAML formats share.
//! - `shareable`: extracts the part of a file that a cluster can share.

pub mod diagnostic;
pub mod document;
mod expressions;
mod grammar;
mod lint;
mod parse;
pub mod settings;
mod shareable;
mod source;
mod tree;

use std::path::Path;
use std::sync::Arc;

pub use diagnostic::{Diagnostic, RenderStyle, Report, Severity};
#[doc(hidden)]
pub use grammar::Field as GrammarField;
pub use grammar::{reference, schema};
pub use settings::Settings;
pub use shareable::shareable_text;
pub use source::{MAX_FILE_BYTES, Span};

use diagnostic::{DiagnosticBuilder, DiagnosticSink};
use source::{ReadError, SourceText};

/// A valid rule file.
#[derive(Clone, Debug)]
pub struct LoadedConfig {
    /// The settings.
    pub settings: Settings,
    /// Warnings; empty for a file without any.
    pub warnings: Report,
}

/// Loads a rule file. Paths in it are relative to its directory.
pub fn load(path: impl AsRef<Path>) -> Result<LoadedConfig, Report> {
    let path = path.as_ref();
    read_text(path).and_then(|text| parse_at(path, &text))
}

/// Reads the text of a rule file, with a size limit.
pub fn read_text(path: impl AsRef<Path>) -> Result<String, Report> {
    let path = path.as_ref();
    source::read(path).map_err(|error| unreadable(&path.to_string_lossy(), &error))
}

/// Parses a text as if it were the content of this file, to validate an edit.
pub fn parse_at(path: impl AsRef<Path>, text: &str) -> Result<LoadedConfig, Report> {
    let path = path.as_ref();
    parse_with(&path.to_string_lossy(), text, path.parent(), parse::parse_file)
}

/// Parses the text of a rule file. Files it refers to are not opened.
pub fn parse(file_name: &str, text: &str) -> Result<LoadedConfig, Report> {
    parse_with(file_name, text, None, parse::parse_file)
}

/// Parses rules and lists from a shared store. All other settings are taken from `base`, the settings of
/// this process.
///
/// ```
/// let base = sluicegate_config::parse("rules.yaml", "{ store: redis://127.0.0.1, rules_from: store }")?.settings;
/// let shared = sluicegate_config::parse_shared("version 2", "rules: [{ name: total, limits: [10/s] }]", &base)?;
/// assert_eq!((shared.settings.rules.len(), &shared.settings.store), (1, &base.store));
///
/// let report = sluicegate_config::parse_shared("version 3", "memory: 1GiB", &base).unwrap_err();
/// assert!(report.to_string().contains("belongs in the file of each process"));
/// # Ok::<(), sluicegate_config::Report>(())
/// ```
pub fn parse_shared(name: &str, text: &str, base: &Settings) -> Result<LoadedConfig, Report> {
    parse_with(name, text, None, |context, root| parse::parse_shared_rules(context, root, base))
}

fn unreadable(name: &str, error: &ReadError) -> Report {
    let finding = DiagnosticBuilder::for_file(error.to_string()).help(error.remedy());
    DiagnosticSink::from(finding).into_report(Arc::new(SourceText::new(name, "")))
}

fn parse_with(
    name: &str,
    text: &str,
    folder: Option<&Path>,
    convert: impl for<'c> FnOnce(&'c parse::ParseContext<'c>, &'c tree::Node<'c>) -> Option<parse::ParsedFile>,
) -> Result<LoadedConfig, Report> {
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(unreadable(name, &ReadError::TooLarge));
    }
    let source = Arc::new(SourceText::new(name, text));
    let (tree, mut findings) = tree::parse(&source.text);
    let mut settings = Settings::default();
    match tree {
        Some(tree) if tree.value != tree::Value::Null => {
            let context = parse::ParseContext::new(&source.text, folder);
            if let Some(parsed) = convert(&context, &tree) {
                lint::file(&context, &parsed);
                settings = parsed.into_settings();
            }
            findings.append(context.findings.into_inner());
        }
        _ if !findings.has_errors() => findings.push(DiagnosticBuilder::for_file("the file is empty").help(
            "add a rule, such as `rules: [{ name: total, limits: [1000/s] }]`, or write `rules: []` for no rules",
        )),
        _ => {}
    }
    let refused = findings.has_errors();
    let report = findings.into_report(source);
    if refused { Err(report) } else { Ok(LoadedConfig { settings, warnings: report }) }
}
