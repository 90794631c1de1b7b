//! Rules in the store, shared by a cluster.
//!
//! Every process polls the current version once a second and applies a new one. The first process that finds
//! none publishes the rules of its own file. If the store has lost the rules, a process that still has them
//! restores them; if the store is unreachable, the rules in force stay.

use std::sync::Arc;

use sluicegate::cluster::{RuleRepository, RuleRepositoryError, StoredRules, StoredVersion, store_of};
use tracing::warn;

use super::apply::ChangeInfo;
use super::types::{AppliedRules, EditError, RuleDiagnostic, RulesOrigin, RulesVersion, SEED};
use super::{ManagerInner, pending_restart};

impl ManagerInner {
    fn repository(&self) -> Result<RuleRepository, EditError> {
        let store =
            store_of(&self.sluice).ok_or_else(|| EditError::Unavailable("no store is configured".to_owned()))?;
        Ok(store.rule_repository())
    }

    /// Applies the cluster's current version, if rules are kept in the store. Called periodically.
    pub(super) async fn sync_with_store(self: &Arc<Self>) {
        if matches!(self.loader.origin(), RulesOrigin::Store(_)) {
            let _change_lock = self.change_lock.lock().await;
            // Errors have been recorded.
            let _ = self.fetch_from_store(false).await;
        }
    }

    /// Applies the cluster's current version unless it is in force or was rejected here before; `force` retries
    /// a rejected one too.
    pub(super) async fn fetch_from_store(self: &Arc<Self>, force: bool) -> Result<(), EditError> {
        let repository = self.repository()?;
        let (present, rejected) = {
            let state = self.state.lock();
            (state.history.current(), state.rejected_version)
        };
        let unavailable = |error: RuleRepositoryError| self.record_store_unreachable(&error, force);
        let current = repository.current_version().await.map_err(unavailable)?;
        self.record_store_reachable();
        let Some(current) = current else { return self.seed_store(&repository, present).await };
        if (current == present || Some(current) == rejected) && !force {
            return Ok(());
        }
        let Some(StoredRules { version, text }) = repository.current().await.map_err(unavailable)? else {
            return Ok(());
        };
        let change = ChangeInfo { author: version.author, comment: version.comment };
        let applied = self.apply(text, change, Some(version.number)).await;
        self.state.lock().rejected_version = applied.is_err().then_some(version.number);
        applied.map(drop)
    }

    /// Publishes the rules in force to a store that has none.
    async fn seed_store(self: &Arc<Self>, repository: &RuleRepository, present: u64) -> Result<(), EditError> {
        let unavailable = |error: RuleRepositoryError| self.record_store_unreachable(&error, false);
        let (version, text) = {
            let state = self.state.lock();
            let Some(current) = state.history.version(present) else { return Ok(()) };
            current
        };
        if present > 0 {
            warn!(version = present, "the store has lost the rules of the cluster; restoring them");
            let RulesVersion { number, at, author, comment, bytes, .. } = version;
            let stored = StoredRules { version: StoredVersion { number, at, author, comment, bytes }, text };
            return repository.restore(&stored).await.map_err(unavailable);
        }
        match repository.publish(&text, SEED.0, SEED.1, Some(0)).await {
            Ok(number) => {
                self.state.lock().history.add(number, &text, &ChangeInfo::known(SEED), version.at);
                Ok(())
            }
            // Another process was first: the next poll fetches its rules.
            Err(RuleRepositoryError::Conflict { .. }) => Ok(()),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Records that the store is unreachable. It is polled continuously, so this is reported only once, unless
    /// the operation was requested.
    fn record_store_unreachable(&self, error: &RuleRepositoryError, requested: bool) -> EditError {
        let (was_unreachable, has_none) = {
            let mut state = self.state.lock();
            (std::mem::replace(&mut state.store_unreachable, true), state.history.current() == 0)
        };
        let fallback = if has_none { "; using the rules of the file until the store is reachable" } else { "" };
        let unavailable = EditError::Unavailable(format!("{error}{fallback}"));
        if was_unreachable && !requested { unavailable } else { self.record_error(unavailable) }
    }

    /// Records that the store is reachable.
    fn record_store_reachable(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.store_unreachable) {
            state.last_error = None;
        }
    }

    /// Publishes a text for the cluster, and applies it here immediately.
    pub(super) async fn publish(
        self: &Arc<Self>,
        text: String,
        change: ChangeInfo,
        based_on: Option<u64>,
    ) -> Result<AppliedRules, EditError> {
        // Never publishes rules that this process would reject.
        self.loader.parse(&text).map_err(EditError::Invalid)?;
        let published = self.repository()?.publish(&text, &change.author, &change.comment, based_on).await;
        match published {
            Ok(number) => self.apply(text, change, Some(number)).await,
            Err(RuleRepositoryError::Conflict { current }) => Err(EditError::StaleVersion { present: current }),
            Err(error) => Err(EditError::Unavailable(error.to_string())),
        }
    }

    /// Finds the sections of the local file, except rules and lists, that differ from the running settings.
    pub(super) async fn check_local_file(&self) -> Result<(), EditError> {
        let RulesOrigin::Store(path) = self.loader.origin() else { return Ok(()) };
        let path = path.clone();
        let loaded = tokio::task::spawn_blocking(move || sluicegate_config::load(path)).await;
        match loaded {
            Ok(Ok(loaded)) => {
                self.state.lock().pending_restart = pending_restart::sections(self.loader.running(), &loaded.settings);
                Ok(())
            }
            Ok(Err(report)) => Err(self.record_error(EditError::Invalid(RuleDiagnostic::from_report(&report)))),
            Err(_) => Err(self.record_error(EditError::Unavailable("the read task failed".to_owned()))),
        }
    }

    pub(super) async fn stored_versions(&self) -> Result<Vec<RulesVersion>, EditError> {
        let current = self.state.lock().history.current();
        let stored = self.repository()?.versions().await.map_err(|error| EditError::Unavailable(error.to_string()))?;
        Ok(stored.into_iter().map(|version| to_version(version, current)).collect())
    }

    pub(super) async fn stored_version(&self, number: u64) -> Result<Option<(RulesVersion, String)>, EditError> {
        let current = self.state.lock().history.current();
        let stored =
            self.repository()?.version(number).await.map_err(|error| EditError::Unavailable(error.to_string()))?;
        Ok(stored.map(|stored| (to_version(stored.version, current), stored.text)))
    }
}

/// Converts a stored version.
fn to_version(stored: StoredVersion, current: u64) -> RulesVersion {
    let StoredVersion { number, at, author, comment, bytes } = stored;
    RulesVersion { number, at, author, comment, bytes, is_current: number == current }
}
