//! Descriptors as envoyproxy/ratelimit's files know them, taken up with the rules of the rule file.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use sluicegate_config::Report;
use sluicegate_config::settings::{Settings, Store};
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};

pub use sluicegate_config::ratelimit::Domains;

/// Reads the folder that the settings name, if they do, and adds its rules to theirs: so they are put in force,
/// counted and handed over as all others are. Where there is a store, it counts them, as the reference's does.
pub fn take_up_domains(settings: &mut Settings) -> Result<Option<Arc<Domains>>, Report> {
    let Some(folder) = settings.server.as_ref().and_then(|server| server.ratelimit.as_deref()) else {
        return Ok(None);
    };
    let domains = Domains::load(Path::new(folder))?;
    let scope = match settings.store {
        Store::Memory => Scope::Local,
        Store::Redis(_) => Scope::Cluster { mode: ClusterMode::Exact, on_store_failure: OnStoreFailure::LocalShare },
    };
    settings.rules.extend(domains.rules().iter().map(|rule| Rule { scope, ..rule.clone() }));
    Ok(Some(Arc::new(domains)))
}

/// The descriptors in force. Clones are the same; they can be exchanged for others while they are asked.
#[derive(Clone, Debug, Default)]
pub struct DomainsInForce(Arc<ArcSwapOption<Domains>>);

impl DomainsInForce {
    /// These.
    pub fn new(domains: Option<Arc<Domains>>) -> Self {
        Self(Arc::new(ArcSwapOption::new(domains)))
    }

    /// Puts others in force. Their rules must be, by then.
    pub fn replace(&self, domains: Option<Arc<Domains>>) {
        self.0.store(domains);
    }

    /// Those that know a domain.
    pub(crate) fn with(&self, domain: &str) -> Option<Arc<Domains>> {
        self.0.load().as_ref().filter(|domains| domains.has(domain)).cloned()
    }
}
