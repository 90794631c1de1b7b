//! Loads rules from a file or from standard input.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use sluicegate_config::{LoadedConfig, MAX_FILE_BYTES, Report, Settings};
use sluicegate_engine::Sluice;
use sluicegate_engine::clock::ManualClock;
use sluicegate_engine::rule::Rule;
use sluicegate_server::Domains;
use sluicegate_terminal::CommandOutput;

use crate::style::{TerminalStyle, invalid_rules};

/// Error loading rules.
pub(crate) struct RulesError {
    pub(crate) output: CommandOutput,
    /// Diagnostics, if the file could be read.
    pub(crate) report: Option<Report>,
}

impl From<RulesError> for CommandOutput {
    fn from(error: RulesError) -> Self {
        error.output
    }
}

/// Loads a rule file and the ratelimit directory that it names.
pub(crate) fn load(path: &Path, style: TerminalStyle) -> Result<LoadedRules, RulesError> {
    let invalid = |report| RulesError { output: invalid_rules(&report, style), report: Some(report) };
    let (text, loaded) = if path == Path::new("-") {
        let text = read_stdin().map_err(|error| RulesError { output: CommandOutput::failed(&error), report: None })?;
        let loaded = sluicegate_config::parse("<stdin>", &text);
        (text, loaded)
    } else {
        let text = sluicegate_config::read_text(path).map_err(invalid)?;
        let loaded = sluicegate_config::parse_at(path, &text);
        (text, loaded)
    };
    let mut loaded = loaded.map_err(invalid)?;
    let file_settings = loaded.settings.clone();
    let domains = sluicegate_server::apply_domains(&mut loaded.settings).map_err(invalid)?;
    Ok(LoadedRules { text, loaded, file_settings, domains })
}

/// Loads built-in rules.
pub(crate) fn built_in(text: &str) -> Result<LoadedRules, Report> {
    let loaded = sluicegate_config::parse("built-in rules", text)?;
    Ok(LoadedRules { text: text.to_owned(), file_settings: loaded.settings.clone(), loaded, domains: None })
}

/// A loaded rule file, with the envoyproxy/ratelimit directory that it names.
pub(crate) struct LoadedRules {
    /// Text of the file.
    pub(crate) text: String,
    /// Settings with the rules of the directory.
    pub(crate) loaded: LoadedConfig,
    /// Settings of the file alone.
    pub(crate) file_settings: Settings,
    pub(crate) domains: Option<Arc<Domains>>,
}

fn read_stdin() -> Result<String, String> {
    let mut bytes = Vec::new();
    // One byte more than allowed, so that the parser detects a file that is too large.
    let read = std::io::stdin().lock().take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("cannot read standard input: {error}"))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("standard input is not valid UTF-8 at byte {at}: save it as UTF-8")
    })
}

/// Maximum number of keys per rule in a simulation. A simulation has only a few clients:
/// checking a file must not need the memory of running it.
const SIMULATION_MAX_KEYS: usize = 256;

/// Builds a sluice with these rules, in virtual time.
pub(crate) fn simulate(settings: &Settings) -> Result<(Sluice, ManualClock), CommandOutput> {
    let clock = ManualClock::new();
    let rules = settings.rules.iter().cloned().map(|rule| {
        let max_keys = (!rule.key.is_empty()).then_some(SIMULATION_MAX_KEYS);
        Rule { max_keys, ..rule }
    });
    let built = Sluice::builder().rules(rules).lists(settings.lists.conditions()).clock(clock.clone()).build();
    built.map(|sluice| (sluice, clock)).map_err(|error| CommandOutput::failed(&error.to_string()))
}
