//! From a text to what it says, by where it lives.

use sluicegate_config::{Loaded, Report, Settings};

use super::pending;
use super::told::{Fault, Origin};

/// What belongs to rules besides their text, such as folders that the settings name.
pub trait Beside: Send + Sync {
    /// Reads it and adds the rules it holds to those of the settings.
    fn complete(&self, settings: &mut Settings) -> Result<InForce, Report>;
}

/// What is to be done once the rules are in force.
pub type InForce = Box<dyn FnOnce() + Send>;

/// Nothing belongs to the rules but their text.
impl Beside for () {
    fn complete(&self, _settings: &mut Settings) -> Result<InForce, Report> {
        Ok(Box::new(|| {}))
    }
}

/// Reads texts as this process does.
pub(super) struct Reader {
    origin: Origin,
    /// What runs: everything but rules and lists stays so.
    running: Settings,
    beside: Box<dyn Beside>,
}

/// A text that can be put in force.
pub(super) struct Read {
    pub(super) settings: Settings,
    pub(super) in_force: InForce,
    pub(super) warnings: Vec<Fault>,
    /// What it changes that takes a restart.
    pub(super) pending_restart: Vec<String>,
}

impl Reader {
    pub(super) const fn new(origin: Origin, running: Settings, beside: Box<dyn Beside>) -> Self {
        Self { origin, running, beside }
    }

    pub(super) const fn origin(&self) -> &Origin {
        &self.origin
    }

    pub(super) const fn running(&self) -> &Settings {
        &self.running
    }

    /// Reads and checks a text of the kind that lives where the rules do.
    pub(super) fn read(&self, text: &str) -> Result<Read, Vec<Fault>> {
        let loaded = match &self.origin {
            Origin::BuiltIn => sluicegate_config::parse("the built-in rules", text),
            Origin::File(path) => sluicegate_config::parse_at(path, text),
            Origin::Store(_) => sluicegate_config::parse_shared("the fleet's rules", text, &self.running),
        };
        self.complete(loaded).map_err(|report| Fault::all(&report))
    }

    fn complete(&self, loaded: Result<Loaded, Report>) -> Result<Read, Report> {
        let Loaded { mut settings, warnings } = loaded?;
        let pending_restart = pending::sections(&self.running, &settings);
        let in_force = self.beside.complete(&mut settings)?;
        Ok(Read { settings, in_force, warnings: Fault::all(&warnings), pending_restart })
    }
}
