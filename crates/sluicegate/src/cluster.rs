//! Limits for a cluster of processes, counted in Redis or Valkey.
//!
//! A rule file needs two settings: `store: redis://...` and, in a rule, `scope: cluster`. [`load`] applies them.
//! Programs that build rules in code start a [`ClusterStore`] and pass it to the builder of the sluice.
//!
//! [`store_of`] returns the store of a sluice, to read its [health](ClusterStore::health) and to close it.
//!
//! [`load`]: crate::load

use std::any::Any;
use std::sync::Arc;

pub use sluicegate_cluster::{
    ClusterStore, Health, ListKind, RuleRepository, RuleRepositoryError, StartError, StoreOptions, StoreState,
    StoredRules, StoredVersion, Tls, Topology,
};
use sluicegate_engine::Sluice;

/// Returns the store of a sluice's cluster rules, if it has one.
///
/// ```
/// use sluicegate::Sluice;
///
/// assert!(sluicegate::cluster::store_of(&Sluice::builder().build()?).is_none());
/// # Ok::<(), sluicegate::sluice::RuleSetError>(())
/// ```
pub fn store_of(sluice: &Sluice) -> Option<Arc<ClusterStore>> {
    let store: Arc<dyn Any + Send + Sync> = sluice.store()?;
    store.downcast().ok()
}

/// Converts the store settings of a rule file to options of the store.
///
/// ```
/// use sluicegate::config::settings::Store;
///
/// let text = "store: { url: 'rediss://redis.example', prefix: shop }";
/// let settings = sluicegate::config::parse("rules.yaml", text)?.settings;
/// let Store::Redis(store) = settings.store else { panic!("not a Redis store") };
/// let options = sluicegate::cluster::options(&store);
/// assert_eq!((options.key_prefix.as_str(), options.tls.is_some()), ("shop", true));
/// # Ok::<(), sluicegate::config::Report>(())
/// ```
#[cfg(feature = "config")]
pub fn options(store: &sluicegate_config::settings::RedisStore) -> StoreOptions {
    use sluicegate_config::settings;
    let topology = match &store.topology {
        settings::Topology::Single => Topology::Single,
        settings::Topology::Sentinel(primary) => Topology::Sentinel(primary.clone()),
        settings::Topology::Cluster => Topology::Cluster,
    };
    let mut options = StoreOptions::new(topology, store.nodes.iter().cloned());
    options.tls = store.tls.then(|| Tls { authority: store.ca.as_ref().map(Into::into) });
    options.username.clone_from(&store.username);
    options.password.clone_from(&store.password);
    options.database = store.database;
    options.deadline = store.timeout;
    options.key_prefix.clone_from(&store.prefix);
    options.permit_time_to_live = store.permit_ttl;
    options.expected_nodes = store.expected_nodes.and_then(std::num::NonZeroU32::new);
    options
}
