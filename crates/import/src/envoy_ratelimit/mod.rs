//! Reads envoyproxy/ratelimit configurations unchanged: a directory of files, each with a domain and nested
//! descriptors. Matches descriptors sent by a proxy to limits.
//!
//! Each counting limit becomes an engine [rule](Domains::rules). [`Domains::find`] returns the limit of a
//! descriptor and its counter key.
//!
//! ```
//! use sluicegate_import::envoy_ratelimit::Domains;
//!
//! let domains = Domains::parse(&[("messaging.yaml".to_owned(), "
//! domain: messaging
//! descriptors:
//!   - key: message_type
//!     value: marketing
//!     descriptors:
//!       - key: to_number
//!         rate_limit: { unit: day, requests_per_unit: 5 }
//! ".to_owned())])?;
//!
//! let found = domains.find("messaging", [("message_type", "marketing"), ("to_number", "2061111111")]).unwrap();
//! assert_eq!(found.limit.requests_per_unit, 5);
//! assert_eq!(found.limit.rule_name, "messaging.message_type_marketing.to_number");
//! assert_eq!(found.key, "to_number=2061111111");
//! assert!(domains.find("messaging", [("message_type", "marketing")]).is_none());
//! # Ok::<(), sluicegate_config::Report>(())
//! ```
//!
//! As an extension, a `rate_limit` may select the algorithm: `algorithm: token_bucket` with `burst: 20`, or
//! any `limits` of a rule file. Files without extensions have the same meaning as in envoyproxy/ratelimit,
//! with three exceptions. Settings without effect are refused: a misplaced field, a limit without
//! `requests_per_unit`, a duplicate field. `*` in a key is refused. Descriptors that envoyproxy/ratelimit
//! confuses, because it joins key and value with `_`, are distinct.

mod descriptors;
mod directory;
mod grammar;
mod key;
mod lenient_yaml;
mod limit;
mod matching;
mod rate_limit;
mod stat_name;
mod unit;
mod wildcard;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rapidhash::RapidHashMap;
use sluicegate_config::document::{
    DiagnosticBuilder, DiagnosticSink, ParseContext, ReadError, SourceText, Value, parse_tree,
};
use sluicegate_config::{MAX_FILE_BYTES, Report};
use sluicegate_engine::rule::Rule;

pub use limit::{DescriptorLimit, LimitKind};
pub use matching::DescriptorMatch;
pub use unit::RateLimitUnit;

use descriptors::{ParsedDomain, RulesBuilder};
use directory::FileText;
use matching::DescriptorLevel;

/// All domains of a directory.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    domains: RapidHashMap<Box<str>, DescriptorLevel>,
    rules: Vec<Rule>,
}

impl Domains {
    /// Loads a directory. An error in one file refuses all; the report covers every file.
    pub fn load(directory: &Path) -> Result<Self, Report> {
        match directory::read(directory) {
            Ok(files) => build(files),
            Err(error) => {
                let source = Arc::new(SourceText::new(directory.to_string_lossy(), ""));
                Err(DiagnosticSink::from(DiagnosticBuilder::from(error)).into_report(source))
            }
        }
    }

    /// Parses the texts of named files.
    pub fn parse(files: &[(String, String)]) -> Result<Self, Report> {
        let checked = files.iter().map(|(name, text)| {
            let text = match text.len() as u64 {
                0..=MAX_FILE_BYTES => Ok(text.clone()),
                _ => Err(ReadError::TooLarge.into()),
            };
            (name.clone(), text)
        });
        build(checked.collect())
    }

    /// The rules of counting limits, indexed by [`DescriptorLimit::rule`]. A descriptor's
    /// [key](DescriptorMatch::key) is the attribute `descriptor`, and its domain the service.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// True if there is a domain with that name.
    pub fn contains(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// Finds the limit for a descriptor; `None` if none applies.
    pub fn find<'a>(
        &self,
        domain: &str,
        entries: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Option<DescriptorMatch<'_>> {
        self.domains.get(domain)?.find(entries)
    }
}

fn build(files: Vec<FileText>) -> Result<Domains, Report> {
    let mut domains = Domains::default();
    let mut builder = RulesBuilder::default();
    let mut first_definitions: HashMap<String, String> = HashMap::new();
    let mut reports = Vec::new();
    for (name, text) in files {
        let (text, read_error) = match text {
            Ok(text) => (text, None),
            Err(error) => (String::new(), Some(error)),
        };
        let source = Arc::new(SourceText::new(name, text));
        let (read, findings) = match read_error {
            None => parse_file(&source, &mut builder, &first_definitions),
            Some(error) => (None, DiagnosticSink::from(DiagnosticBuilder::from(error))),
        };
        if findings.has_errors() {
            reports.push(findings.into_report(Arc::clone(&source)));
        }
        if let Some(ParsedDomain { name, span, level }) = read {
            let (line, _) = source.position(span.start);
            first_definitions.entry(name.clone()).or_insert_with(|| format!("{}, line {line}", source.name));
            domains.domains.entry(name.into()).or_insert(level);
        }
    }
    if !reports.is_empty() {
        return Err(Report::merge(reports));
    }
    domains.rules = builder.rules;
    Ok(domains)
}

/// Parses one file.
fn parse_file(
    source: &SourceText,
    builder: &mut RulesBuilder,
    first_definitions: &HashMap<String, String>,
) -> (Option<ParsedDomain>, DiagnosticSink) {
    let (tree, mut findings) = parse_tree(&source.text);
    let tree = match tree {
        Some(tree) if tree.value != Value::Null => lenient_yaml::normalize(tree),
        _ => {
            if !findings.has_errors() {
                findings.push(DiagnosticBuilder::for_file("the file is empty").help("add a domain: `domain: shop`"));
            }
            return (None, findings);
        }
    };
    let context = ParseContext::new(&source.text, None);
    let read = descriptors::domain(&context, &tree, builder);
    findings.append(context.findings.into_inner());
    if let Some(ParsedDomain { name, span, .. }) = &read
        && let Some(first) = first_definitions.get(name)
    {
        findings.push(
            DiagnosticBuilder::error(*span, format!("duplicate domain '{name}'"))
                .label("duplicate")
                .help(format!("first defined in {first}; remove one of them, or merge both into one file")),
        );
    }
    (read, findings)
}
