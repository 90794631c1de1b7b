//! One threshold for a whole fleet, kept in Redis or Valkey.
//!
//! A rule file says it in two lines: `store: redis://...` and, in a rule, `scope: cluster`. [`load`] does the
//! rest. Whoever builds rules by hand starts a [`ClusterStore`] and hands it to the sluice's builder.
//!
//! [`store_of`] finds the store of a sluice, for its [health](ClusterStore::health) and to close it.
//!
//! [`load`]: crate::load

use std::any::Any;
use std::sync::Arc;

pub use sluicegate_cluster::{
    ClusterStore, Health, KeptRules, KeptVersion, ListKind, Rulebook, RulebookError, StartError, State, StoreOptions,
    Tls, Topology,
};
use sluicegate_engine::Sluice;

/// The store that counts a sluice's cluster-wide rules, if there is one.
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

/// What a rule file says of its store, as the store takes it.
///
/// ```
/// use sluicegate::config::settings::Store;
///
/// let text = "store: { url: 'rediss://redis.example', prefix: shop }";
/// let settings = sluicegate::config::parse("rules.yaml", text)?.settings;
/// let Store::Redis(store) = settings.store else { panic!("a Redis") };
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
    options.deadline = store.deadline;
    options.key_prefix.clone_from(&store.prefix);
    options.permit_time_to_live = store.permit_ttl;
    options.expected_nodes = store.expected_nodes.and_then(std::num::NonZeroU32::new);
    options
}
