//! The configuration of envoyproxy/ratelimit, read as it is: a folder of files, each with a domain and its nested
//! descriptors, and finding the limit for what a proxy sends.
//!
//! Each limit that counts becomes a [rule](Domains::rules) of the engine. [`Domains::find`] says which one a
//! descriptor falls under, and what it is counted apart by.
//!
//! ```
//! use sluicegate_config::ratelimit::Domains;
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
//! Beyond the reference, a `rate_limit` may say how it is counted: `algorithm: token_bucket` with `burst: 20`, or
//! any `limits` of a rule file. Files without these mean what they mean there, with three exceptions. What would
//! have no effect is refused: a field in the wrong place, a limit without `requests_per_unit`, a field given
//! twice. So is `*` in a key. And descriptors that the reference takes for one another, because it joins key and
//! value with `_`, are kept apart.

mod descriptors;
mod folder;
mod grammar;
mod key;
mod limit;
mod matching;
mod rate_limit;
mod relax;
mod stat_name;
mod unit;
mod wildcard;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use rapidhash::RapidHashMap;
use sluicegate_engine::rule::Rule;

pub use limit::{DescriptorLimit, Kind};
pub use matching::Match;
pub use unit::Unit;

use crate::diagnostic::{Finding, Findings, Report};
use crate::read::Context;
use crate::source::{LARGEST_FILE, ReadError, Source};
use crate::tree::{self, Value};
use descriptors::{Made, ReadDomain};
use folder::Found;
use matching::Level;

/// All domains of a folder.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    domains: RapidHashMap<Box<str>, Level>,
    rules: Vec<Rule>,
}

impl Domains {
    /// Reads a folder. One file that is wrong refuses them all; the report has what is wrong with any.
    pub fn load(folder: &Path) -> Result<Self, Report> {
        match folder::read(folder) {
            Ok(files) => understand(files),
            Err(error) => {
                let source = Arc::new(Source::new(folder.to_string_lossy(), ""));
                Err(Findings::from(Finding::from(error)).into_report(source))
            }
        }
    }

    /// Reads the texts of files, each with its name.
    pub fn parse(files: &[(String, String)]) -> Result<Self, Report> {
        let checked = files.iter().map(|(name, text)| {
            let text = match text.len() as u64 {
                0..=LARGEST_FILE => Ok(text.clone()),
                _ => Err(ReadError::TooLarge.into()),
            };
            (name.clone(), text)
        });
        understand(checked.collect())
    }

    /// One rule for each limit that counts, at the position that [`DescriptorLimit::rule`] says. A descriptor's
    /// [key](Match::key) is the attribute `descriptor`, and its domain the service.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether there is a domain of that name.
    pub fn has(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// The limit for a descriptor with these entries; `None` if none applies.
    pub fn find<'a>(
        &self,
        domain: &str,
        entries: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Option<Match<'_>> {
        self.domains.get(domain)?.find(entries)
    }
}

fn understand(files: Vec<Found>) -> Result<Domains, Report> {
    let mut domains = Domains::default();
    let mut made = Made::default();
    let mut places: HashMap<String, String> = HashMap::new();
    let mut reports = Vec::new();
    for (name, text) in files {
        let (text, unread) = match text {
            Ok(text) => (text, None),
            Err(error) => (String::new(), Some(error)),
        };
        let source = Arc::new(Source::new(name, text));
        let (read, findings) = match unread {
            None => file(&source, &mut made, &places),
            Some(error) => (None, Findings::from(Finding::from(error))),
        };
        if findings.has_errors() {
            reports.push(findings.into_report(Arc::clone(&source)));
        }
        if let Some(ReadDomain { name, place, level }) = read {
            let (line, _) = source.position(place.start);
            places.entry(name.clone()).or_insert_with(|| format!("{}, line {line}", source.name));
            domains.domains.entry(name.into()).or_insert(level);
        }
    }
    if !reports.is_empty() {
        return Err(Report::joined(reports));
    }
    domains.rules = made.rules;
    Ok(domains)
}

/// Reads one file.
fn file(source: &Source, made: &mut Made, places: &HashMap<String, String>) -> (Option<ReadDomain>, Findings) {
    let (tree, mut findings) = tree::parse(&source.text);
    let tree = match tree {
        Some(tree) if tree.value != Value::Null => relax::relaxed(tree),
        _ => {
            if !findings.has_errors() {
                findings.push(Finding::whole("the file is empty").help("name its domain: `domain: shop`"));
            }
            return (None, findings);
        }
    };
    let context = Context::new(&source.text, None);
    let read = descriptors::domain(&context, &tree, made);
    findings.append(context.findings.into_inner());
    if let Some(ReadDomain { name, place, .. }) = &read
        && let Some(first) = places.get(name)
    {
        findings.push(
            Finding::error(*place, format!("the domain '{name}' has a file already"))
                .label("again here")
                .help(format!("first in {first}; keep one of them, or put the descriptors of both into one file")),
        );
    }
    (read, findings)
}
