//! From a rule file to rules in force.

use std::path::Path;

use sluicegate_config::Report;
use sluicegate_config::settings::{RulesFrom, Settings, Store};
use sluicegate_engine::Sluice;
use sluicegate_engine::rule::Scope;
use sluicegate_engine::sluice::{RuleSetError, SavedRules};
use thiserror::Error;

/// Why a rule file could not be put in force.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read or has faults: all of them, each with its place and remedy.
    #[error("{0}")]
    File(Report),
    /// The rules do not go together.
    #[error(transparent)]
    Rules(#[from] RuleSetError),
    /// The store cannot even be tried.
    #[cfg(feature = "cluster")]
    #[error("store: {0}")]
    Store(#[from] sluicegate_cluster::StartError),
    /// No thread could be had to steer the rules that protect the process.
    #[cfg(feature = "adaptive")]
    #[error("no thread for rules with `adaptive`: {0}")]
    Thread(#[from] std::io::Error),
    /// There are rules that protect the process under strain, and nobody to steer them.
    #[cfg(not(feature = "adaptive"))]
    #[error("rule '{rule}' has `adaptive`: turn on the feature `adaptive` of sluicegate")]
    NoAdaptive {
        /// The first such rule.
        rule: String,
    },
    /// There are rules for a whole fleet, and no way to reach its store.
    #[cfg(not(feature = "cluster"))]
    #[error(
        "rule '{rule}' has `scope: cluster` and the file names a store: turn on the feature `cluster` of sluicegate"
    )]
    NoCluster {
        /// The first such rule.
        rule: String,
    },
}

/// Reads a rule file and puts its rules and lists in force, within the memory it allows.
///
/// Warnings are dropped: to see them, read the file with [`config::load`](crate::config::load), which
/// also has the settings that no library needs. Rules with `scope: cluster` are counted in the file's
/// `store`, if it names one; the store need not be up yet. To exchange the rules later, hand those of another file
/// to [`Sluice::replace`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join("sluicegate-load");
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("rules.yaml");
/// # std::fs::write(&file, "rules: [{ name: total, limit: [10/s] }]")?;
/// let error = sluicegate::load(&file).unwrap_err(); // `limit` where it must say `limits`
/// assert!(error.to_string().contains("did you mean `limits`?"));
/// # std::fs::write(&file, "rules: [{ name: total, limits: [10/s] }]")?;
/// # sluicegate::load(&file)?;
/// # Ok(())
/// # }
/// ```
pub fn load(path: impl AsRef<Path>) -> Result<Sluice, LoadError> {
    enforce(sluicegate_config::load(path).map_err(LoadError::File)?.settings)
}

/// Reads a rule file and makes a layer of it: [`load`], with the file's header style. What a file cannot
/// know, such as whose word about the client counts, is told to the builder.
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

/// Puts the rules and lists of settings in force, within the memory they allow. Rules that protect the process under
/// strain are steered by a thread of their own for as long as the sluice is kept.
pub fn enforce(settings: Settings) -> Result<Sluice, LoadError> {
    let protecting = settings.rules.iter().find(|rule| rule.adaptive.is_some()).map(|rule| rule.name.clone());
    let sluice = resume(settings, None)?;
    match protecting {
        None => {}
        #[cfg(feature = "adaptive")]
        Some(_) => {
            crate::steer(&sluice)?;
        }
        #[cfg(not(feature = "adaptive"))]
        Some(rule) => return Err(LoadError::NoAdaptive { rule }),
    }
    Ok(sluice)
}

/// [`enforce`], going on with what the rules remembered before a restart. Rules that protect the process under strain
/// are left to whoever steers them.
pub fn resume(settings: Settings, remembered: Option<SavedRules>) -> Result<Sluice, LoadError> {
    let lists = settings.lists.conditions();
    let memory = usize::try_from(settings.memory).unwrap_or(usize::MAX);
    let builder = Sluice::builder().lists(lists).memory(memory);
    // Whoever looks at the admin pages wants to know who asks most.
    let builder = if settings.admin.is_some() { builder.watch_keys() } else { builder };
    let builder = match remembered {
        Some(remembered) => builder.restore(remembered),
        None => builder,
    };
    let clustered = settings.rules.iter().find(|rule| matches!(rule.scope, Scope::Cluster { .. }));
    // Numbers that come with calls to a decision server are counted in the store as well, and rules may live there.
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
