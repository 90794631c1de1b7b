//! Rule repository: the API for publishing and following the cluster's rules.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::ClusterStore;
use super::exact::ExactBatch;
use crate::client::StoreClient;
use crate::rules::{RuleQuery, RuleReply, RuleRepositoryError, StoredRules, StoredVersion};

/// Timeout of a query without a text.
const QUERY_TIMEOUT: Duration = Duration::from_secs(1);
/// Timeout of a query with a text, which may have some megabytes.
const TEXT_TIMEOUT: Duration = Duration::from_secs(3);

/// Rule repository: the versioned texts of the cluster's rules. Clones share state; a handle does not keep the
/// store's connection open.
///
/// A query completes or fails within a second, with a text within three; at once while the
/// breaker is open. Texts use the same connection as decisions: a text of many megabytes delays
/// those, and their rules' failure policy applies if that takes too long.
///
/// ```no_run
/// # use sluicegate_cluster::{ClusterStore, RuleRepositoryError};
/// # async fn shown(store: &ClusterStore) -> Result<(), RuleRepositoryError> {
/// let rules = store.rule_repository();
/// let number = rules.publish("rules: []", "alice", "a fresh start", Some(0)).await?;
/// assert_eq!(rules.current_version().await?, Some(number));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RuleRepository {
    client: StoreClient<ExactBatch>,
    key: Bytes,
    /// The highest version number seen by this process; shared by all handles.
    max_seen: Arc<AtomicU64>,
}

impl ClusterStore {
    /// The repository of the cluster's rules.
    pub fn rule_repository(&self) -> RuleRepository {
        self.rule_repository.clone()
    }
}

impl RuleRepository {
    pub(super) fn new(client: &StoreClient<ExactBatch>, prefix: &str) -> Self {
        let key = Bytes::from(format!("{prefix}:{{rules}}:versions"));
        Self { client: client.background(), key, max_seen: Arc::default() }
    }

    /// The current version number; `None` if there is none yet. Cheap enough for every process to call every
    /// second.
    pub async fn current_version(&self) -> Result<Option<u64>, RuleRepositoryError> {
        let number = self.query_number(RuleQuery::Number, QUERY_TIMEOUT).await?;
        Ok(Some(number).filter(|number| *number > 0))
    }

    /// The current version with its text; `None` if there is none yet.
    pub async fn current(&self) -> Result<Option<StoredRules>, RuleRepositoryError> {
        self.rules(None).await
    }

    /// The version of this number with its text; `None` if it is not retained, or never existed.
    pub async fn version(&self, number: u64) -> Result<Option<StoredRules>, RuleRepositoryError> {
        if number == 0 { Ok(None) } else { self.rules(Some(number)).await }
    }

    /// The retained versions, newest first: the last
    /// [hundred](crate::MAX_VERSIONS), fewer if their texts are long.
    pub async fn versions(&self) -> Result<Vec<StoredVersion>, RuleRepositoryError> {
        match self.query(RuleQuery::Versions, QUERY_TIMEOUT).await? {
            RuleReply::Versions(versions) => Ok(versions),
            _ => Err(RuleRepositoryError::invalid_reply()),
        }
    }

    /// Publishes a text as the next version, and returns its number. Succeeds only if `based_on` is still the
    /// current version: `None` for any, `Some(0)` only if there is none. Of several publishers with the
    /// same base one succeeds, the others get a [conflict](RuleRepositoryError::Conflict).
    ///
    /// The number is higher than any that this process has seen, even if the store has lost them.
    pub async fn publish(
        &self,
        text: &str,
        author: &str,
        comment: &str,
        based_on: Option<u64>,
    ) -> Result<u64, RuleRepositoryError> {
        let max_seen = self.max_seen.load(Ordering::Relaxed);
        self.query_number(RuleQuery::Publish { text, author, comment, based_on, max_seen }, TEXT_TIMEOUT).await
    }

    /// Restores a version that the store has lost, with its number, unless the store has the same or a
    /// later one by now.
    pub async fn restore(&self, stored: &StoredRules) -> Result<(), RuleRepositoryError> {
        self.query_number(RuleQuery::Restore(stored), TEXT_TIMEOUT).await.map(drop)
    }

    async fn rules(&self, number: Option<u64>) -> Result<Option<StoredRules>, RuleRepositoryError> {
        match self.query(RuleQuery::Rules(number), TEXT_TIMEOUT).await? {
            RuleReply::Rules(rules) => {
                self.record_seen(rules.as_ref().map_or(0, |rules| rules.version.number));
                Ok(rules)
            }
            _ => Err(RuleRepositoryError::invalid_reply()),
        }
    }

    async fn query_number(&self, query: RuleQuery<'_>, deadline: Duration) -> Result<u64, RuleRepositoryError> {
        match self.query(query, deadline).await? {
            RuleReply::Number(number) => {
                self.record_seen(number);
                Ok(number)
            }
            _ => Err(RuleRepositoryError::invalid_reply()),
        }
    }

    async fn query(&self, query: RuleQuery<'_>, deadline: Duration) -> Result<RuleReply, RuleRepositoryError> {
        let invocation = query.invocation(&self.key)?;
        let reply = self.client.call(invocation, deadline).await?;
        RuleReply::decode(&self.key, reply)
    }

    fn record_seen(&self, number: u64) {
        self.max_seen.fetch_max(number, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for RuleRepository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuleRepository").field("key", &self.key).finish_non_exhaustive()
    }
}
