//! Getting at the rules: from a file or from standard input.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use sluicegate_config::{LARGEST_FILE, Loaded, Report, Settings};
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::Rule;
use sluicegate_server::Domains;

use crate::answer::{Answer, Look};

/// Why there are no rules.
pub(crate) struct Unusable {
    pub(crate) answer: Answer,
    /// What is wrong with them, if they could be read at all.
    pub(crate) report: Option<Report>,
}

impl From<Unusable> for Answer {
    fn from(unusable: Unusable) -> Self {
        unusable.answer
    }
}

/// Reads a rule file and the folder it may name, or says why that is not possible.
pub(crate) fn load(path: &Path, look: Look) -> Result<Read, Unusable> {
    let unusable = |report| Unusable { answer: Answer::bad_rules(&report, look), report: Some(report) };
    let (text, loaded) = if path == Path::new("-") {
        let text = stdin().map_err(|error| Unusable { answer: Answer::failed(&error), report: None })?;
        let loaded = sluicegate_config::parse("<stdin>", &text);
        (text, loaded)
    } else {
        let text = sluicegate_config::read_text(path).map_err(unusable)?;
        let loaded = sluicegate_config::parse_at(path, &text);
        (text, loaded)
    };
    let mut loaded = loaded.map_err(unusable)?;
    let written = loaded.settings.clone();
    let domains = sluicegate_server::take_up_domains(&mut loaded.settings).map_err(unusable)?;
    Ok(Read { text, loaded, written, domains })
}

/// Reads rules that are in the program itself.
pub(crate) fn built_in(text: &str) -> Result<Read, Report> {
    let loaded = sluicegate_config::parse("the built-in rules", text)?;
    Ok(Read { text: text.to_owned(), written: loaded.settings.clone(), loaded, domains: None })
}

/// A rule file, and the folder of envoyproxy/ratelimit's files that it names.
pub(crate) struct Read {
    /// The file as it is written.
    pub(crate) text: String,
    /// What it says, with the rules of the folder.
    pub(crate) loaded: Loaded,
    /// What it says by itself.
    pub(crate) written: Settings,
    pub(crate) domains: Option<Arc<Domains>>,
}

fn stdin() -> Result<String, String> {
    let mut bytes = Vec::new();
    // One byte more than allowed, so that the reader sees that it is too much.
    let read = std::io::stdin().lock().take(LARGEST_FILE + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("standard input cannot be read: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("standard input is not UTF-8 text: byte {at} is not part of any character; save it as UTF-8")
    })
}

/// Keys a rule remembers in virtual time. A handful of clients come here, whatever the file is made for:
/// looking at a file must not take the memory that running it would.
const FEW_KEYS: usize = 256;

/// Puts rules in force, in virtual time.
pub(crate) fn enforce(settings: &Settings) -> Result<(Sluice, ManualClock), Answer> {
    let clock = ManualClock::new();
    let rules = settings.rules.iter().cloned().map(|rule| {
        let max_keys = (!rule.key.is_empty()).then_some(FEW_KEYS);
        Rule { max_keys, ..rule }
    });
    let built = Sluice::builder().rules(rules).lists(settings.lists.conditions()).clock(clock.clone()).build();
    built.map(|sluice| (sluice, clock)).map_err(|error| Answer::failed(&error.to_string()))
}
