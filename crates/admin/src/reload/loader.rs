//! Parses rule texts according to their origin.

use sluicegate_config::{LoadedConfig, Report, Settings};

use super::pending_restart;
use super::types::{RuleDiagnostic, RulesOrigin};

/// Further files that belong to the rules, such as directories named in the settings.
pub trait SideFiles: Send + Sync {
    /// Loads them and adds their rules to the settings.
    fn load(&self, settings: &mut Settings) -> Result<OnApplied, Report>;
}

/// Runs once the rules are in force.
pub type OnApplied = Box<dyn FnOnce() + Send>;

/// No further files.
impl SideFiles for () {
    fn load(&self, _settings: &mut Settings) -> Result<OnApplied, Report> {
        Ok(Box::new(|| {}))
    }
}

/// Parses texts with the settings of this process.
pub(super) struct RuleLoader {
    origin: RulesOrigin,
    /// Running settings: everything except rules and lists stays.
    running: Settings,
    side_files: Box<dyn SideFiles>,
}

/// A parsed text that can be applied.
pub(super) struct ParsedRules {
    pub(super) settings: Settings,
    pub(super) on_applied: OnApplied,
    pub(super) warnings: Vec<RuleDiagnostic>,
    /// Changed sections that need a restart.
    pub(super) pending_restart: Vec<String>,
}

impl RuleLoader {
    pub(super) const fn new(origin: RulesOrigin, running: Settings, side_files: Box<dyn SideFiles>) -> Self {
        Self { origin, running, side_files }
    }

    pub(super) const fn origin(&self) -> &RulesOrigin {
        &self.origin
    }

    pub(super) const fn running(&self) -> &Settings {
        &self.running
    }

    /// Parses and checks a text of this origin.
    pub(super) fn parse(&self, text: &str) -> Result<ParsedRules, Vec<RuleDiagnostic>> {
        let loaded = match &self.origin {
            RulesOrigin::BuiltIn => sluicegate_config::parse("the built-in rules", text),
            RulesOrigin::File(path) => sluicegate_config::parse_at(path, text),
            RulesOrigin::Store(_) => sluicegate_config::parse_shared("the rules of the cluster", text, &self.running),
        };
        self.complete(loaded).map_err(|report| RuleDiagnostic::from_report(&report))
    }

    fn complete(&self, loaded: Result<LoadedConfig, Report>) -> Result<ParsedRules, Report> {
        let LoadedConfig { mut settings, warnings } = loaded?;
        let pending_restart = pending_restart::sections(&self.running, &settings);
        let on_applied = self.side_files.load(&mut settings)?;
        Ok(ParsedRules { settings, on_applied, warnings: RuleDiagnostic::from_report(&warnings), pending_restart })
    }
}
