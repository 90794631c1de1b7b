//! Loads a rule file and enforces its rules.

use std::path::Path;

use sluicegate_config::Report;
use sluicegate_config::settings::{RulesFrom, Settings, Store};
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::Scope;
use sluicegate_engine::sluice::{RuleSetError, SavedRules};
use thiserror::Error;

/// Error of loading a rule file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is unreadable or invalid. Contains all diagnostics.
    #[error("{0}")]
    File(Report),
    /// The rules are inconsistent.
    #[error(transparent)]
    Rules(#[from] RuleSetError),
    /// The client of the store cannot be started.
    #[cfg(feature = "cluster")]
    #[error("store: {0}")]
    Store(#[from] sluicegate_cluster::StartError),
    /// The thread of the control loop cannot be started.
    #[cfg(feature = "adaptive")]
    #[error("cannot start the control loop for rules with `adaptive`: {0}")]
    Thread(#[from] std::io::Error),
    /// A rule has `adaptive`, but the feature is disabled.
    #[cfg(not(feature = "adaptive"))]
    #[error("rule '{rule}' has `adaptive`: enable the feature `adaptive` of sluicegate")]
    NoAdaptive {
        /// The first such rule.
        rule: String,
    },
    /// A rule has `scope: cluster`, but the feature is disabled.
    #[cfg(not(feature = "cluster"))]
    #[error("rule '{rule}' has `scope: cluster` and the file has a store: enable the feature `cluster` of sluicegate")]
    NoCluster {
        /// The first such rule.
        rule: String,
    },
}

/// Loads a rule file and enforces its rules and lists, within the memory limit of the file.
///
/// Warnings are dropped. To see them, use [`config::load`](crate::config::load), which also returns the settings
/// that a library does not need. Rules with `scope: cluster` are counted in the `store` of the file, if it has one;
/// the store does not have to be reachable yet. To change the rules later, pass those of another file to
/// [`Sluice::replace`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join("sluicegate-load");
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("rules.yaml");
/// # std::fs::write(&file, "rules: [{ name: total, limit: [10/s] }]")?;
/// let error = sluicegate::load(&file).unwrap_err(); // `limit` instead of `limits`
/// assert!(error.to_string().contains("did you mean `limits`?"));
/// # std::fs::write(&file, "rules: [{ name: total, limits: [10/s] }]")?;
/// # sluicegate::load(&file)?;
/// # Ok(())
/// # }
/// ```
pub fn load(path: impl AsRef<Path>) -> Result<Sluice, LoadError> {
    enforce(sluicegate_config::load(path).map_err(LoadError::File)?.settings)
}

/// Loads a rule file like [`load`] and returns the builder of a tower layer with the header style of the file.
/// Settings that are not in the file, such as trusted proxies, are set on the builder.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join("sluicegate-layer");
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("rules.yaml");
/// # std::fs::write(&file, "headers: legacy\nrules: [{ name: total, limits: [10/s] }]")?;
/// let layer = sluicegate::layer(&file)?.build();
/// assert_eq!(layer.sluice().rules().len(), 1);
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "tower")]
pub fn layer(path: impl AsRef<Path>) -> Result<sluicegate_tower::LimitLayerBuilder, LoadError> {
    let settings = sluicegate_config::load(path).map_err(LoadError::File)?.settings;
    let headers = settings.headers;
    Ok(sluicegate_tower::LimitLayer::builder(enforce(settings)?).headers(headers))
}

/// Enforces the rules and lists of settings, within their memory limit. If a rule has `adaptive`, a control loop runs
/// on a dedicated thread until the sluice is dropped.
pub fn enforce(settings: Settings) -> Result<Sluice, LoadError> {
    let adaptive_rule = settings.rules.iter().find(|rule| rule.adaptive.is_some()).map(|rule| rule.name.clone());
    let sluice = resume(settings, None)?;
    match adaptive_rule {
        None => {}
        #[cfg(feature = "adaptive")]
        Some(_) => {
            crate::start_control_loop(&sluice)?;
        }
        #[cfg(not(feature = "adaptive"))]
        Some(rule) => return Err(LoadError::NoAdaptive { rule }),
    }
    Ok(sluice)
}

/// Like [`enforce`], but restores the state that was saved before a restart, and does not start a control loop.
pub fn resume(settings: Settings, saved: Option<SavedRules>) -> Result<Sluice, LoadError> {
    let lists = settings.lists.conditions();
    let memory = usize::try_from(settings.memory).unwrap_or(usize::MAX);
    let builder = Sluice::builder().lists(lists).memory(memory);
    // The admin API reports the keys with the most requests.
    let builder = if settings.admin.is_some() { builder.track_keys() } else { builder };
    let builder = match saved {
        Some(saved) => builder.restore(saved),
        None => builder,
    };
    let clustered = settings.rules.iter().find(|rule| matches!(rule.scope, Scope::Cluster { .. }));
    // The decision server counts ad-hoc limits in the store, and the rules may be stored there.
    let needs_store = clustered.is_some() || settings.server.is_some() || settings.rules_from == RulesFrom::Store;
    let (Store::Redis(store), true) = (&settings.store, needs_store) else {
        return Ok(builder.rules(settings.rules).build()?);
    };
    #[cfg(feature = "cluster")]
    {
        let store = sluicegate_cluster::ClusterStore::start(&crate::cluster::options(store))?;
        let sluice = builder.rules(settings.rules).store(store.clone()).build()?;
        store.share_with(&sluice);
        Ok(sluice)
    }
    #[cfg(not(feature = "cluster"))]
    {
        let _ = store;
        match clustered {
            Some(rule) => Err(LoadError::NoCluster { rule: rule.name.clone() }),
            None => Ok(builder.rules(settings.rules).build()?),
        }
    }
}
