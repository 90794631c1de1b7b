//! Active envoyproxy/ratelimit configuration: its descriptors, applied together with the rules of the rule file.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use sluicegate_config::Report;
use sluicegate_config::settings::{Settings, Store};
use sluicegate_engine::rule::{ClusterMode, OnStoreFailure, Rule, Scope};

pub use sluicegate_import::envoy_ratelimit::Domains;

/// Reads the envoyproxy/ratelimit directory named in the settings, if any, and adds its rules to the rule file's
/// rules. They are then applied, counted and handed over on restart like all other rules. With a store, the store
/// counts them, as in the reference implementation.
pub fn apply_domains(settings: &mut Settings) -> Result<Option<Arc<Domains>>, Report> {
    let Some(dir) = settings.server.as_ref().and_then(|server| server.ratelimit_dir.as_deref()) else {
        return Ok(None);
    };
    let domains = Domains::load(Path::new(dir))?;
    let scope = match settings.store {
        Store::Memory => Scope::Local,
        Store::Redis(_) => Scope::Cluster { mode: ClusterMode::Exact, on_store_failure: OnStoreFailure::LocalShare },
    };
    settings.rules.extend(domains.rules().iter().map(|rule| Rule { scope, ..rule.clone() }));
    Ok(Some(Arc::new(domains)))
}

/// The active ratelimit domains. Clones share the same value, which can be replaced while requests are decided.
#[derive(Clone, Debug, Default)]
pub struct ActiveDomains(Arc<ArcSwapOption<Domains>>);

impl ActiveDomains {
    /// Creates the handle with these initial domains.
    pub fn new(domains: Option<Arc<Domains>>) -> Self {
        Self(Arc::new(ArcSwapOption::new(domains)))
    }

    /// Replaces the active domains. Their rules must already be applied.
    pub fn replace(&self, domains: Option<Arc<Domains>>) {
        self.0.store(domains);
    }

    /// Returns the active configuration if it contains `domain`.
    pub(crate) fn containing(&self, domain: &str) -> Option<Arc<Domains>> {
        self.0.load().as_ref().filter(|domains| domains.contains(domain)).cloned()
    }
}
