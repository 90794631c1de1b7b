//! Allow and deny list entries added at runtime.
//!
//! With a store the entries are shared: the store keeps them and sends them to every process. Without one they
//! are kept in this process, expire by the sluice's clock, and are lost when the process ends.

use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_cluster::{ClusterStore, ListKind};
use sluicegate_engine::rule::{Expr, ExprError, Lists};
use sluicegate_engine::sluice::RuleSetError;
use sluicegate_engine::{Sluice, Timestamp};
use thiserror::Error;

/// Maximum number of entries kept in this process: all of them are rebuilt on each change.
const MAX_ENTRIES: usize = 100_000;

/// Error adding or removing an entry.
#[derive(Debug, Error)]
pub(crate) enum RuntimeListError {
    /// The condition is invalid.
    #[error(transparent)]
    Condition(#[from] ExprError),
    /// There are too many entries.
    #[error("the list has {MAX_ENTRIES} runtime entries: move them to the rule file")]
    Full,
    /// The rules cannot be applied with this entry.
    #[error(transparent)]
    Rules(#[from] RuleSetError),
}

/// Entries added in this process.
#[derive(Debug, Default)]
pub(crate) struct RuntimeLists(Mutex<Vec<RuntimeEntry>>);

/// One entry added in this process.
#[derive(Clone, Debug)]
struct RuntimeEntry {
    list: ListKind,
    condition: Expr,
    /// `None` if it does not expire.
    expires_at: Option<Timestamp>,
}

/// Source of a list entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntrySource {
    /// The rule file.
    File,
    /// Added in this process.
    Process,
    /// Added in the store, for the cluster.
    Cluster,
}

/// An entry in force.
#[derive(Clone, Debug)]
pub(crate) struct ListEntry {
    pub(crate) condition: String,
    pub(crate) source: EntrySource,
    pub(crate) expires_in: Option<Duration>,
}

impl RuntimeLists {
    /// Adds an entry, or renews its lifetime.
    pub(crate) fn add(
        &self,
        sluice: &Sluice,
        store: Option<&ClusterStore>,
        list: ListKind,
        condition: &str,
        ttl: Option<Duration>,
    ) -> Result<ListEntry, RuntimeListError> {
        let parsed = Expr::parse(condition)?;
        // Entries are identified by their text, so the text is normalised.
        let text = parsed.to_string();
        if let Some(store) = store {
            store.add_to_list(list, &text, ttl)?;
            return Ok(ListEntry { condition: text, source: EntrySource::Cluster, expires_in: ttl });
        }
        let mut added = self.0.lock();
        let before = added.clone();
        added.retain(|known| !(known.list == list && known.condition == parsed));
        if added.len() >= MAX_ENTRIES {
            *added = before;
            return Err(RuntimeListError::Full);
        }
        let expires_at = ttl.map(|ttl| sluice.clock().now() + ttl);
        added.push(RuntimeEntry { list, condition: parsed, expires_at });
        if let Err(error) = apply(sluice, &added) {
            *added = before;
            return Err(error.into());
        }
        Ok(ListEntry { condition: text, source: EntrySource::Process, expires_in: ttl })
    }

    /// Removes an entry. Returns true if it existed.
    pub(crate) fn remove(
        &self,
        sluice: &Sluice,
        store: Option<&ClusterStore>,
        list: ListKind,
        condition: &str,
    ) -> Result<bool, RuntimeListError> {
        let parsed = Expr::parse(condition)?;
        if let Some(store) = store {
            let (_, shared) = sluice.lists();
            let text = parsed.to_string();
            store.remove_from_list(list, &text);
            if text != condition {
                // Another client may have added it with different spelling.
                store.remove_from_list(list, condition);
            }
            return Ok(entries_of(&shared, list).contains(&parsed));
        }
        let mut added = self.0.lock();
        let before = added.clone();
        added.retain(|known| !(known.list == list && known.condition == parsed));
        let removed = added.len() < before.len();
        if removed && let Err(error) = apply(sluice, &added) {
            *added = before;
            return Err(error.into());
        }
        Ok(removed)
    }

    /// Removes expired entries. Returns the next expiry time.
    pub(crate) fn expire(&self, sluice: &Sluice) -> Option<Timestamp> {
        let now = sluice.clock().now();
        let mut added = self.0.lock();
        let before = added.len();
        added.retain(|known| known.expires_at.is_none_or(|until| until > now));
        if added.len() < before {
            // Fails only if the rules in force cannot be applied again.
            let _ = apply(sluice, &added);
        }
        added.iter().filter_map(|known| known.expires_at).min()
    }

    /// All entries of a list in force; those of the file come first.
    pub(crate) fn entries(&self, sluice: &Sluice, is_shared: bool, list: ListKind) -> Vec<ListEntry> {
        let (local, shared) = sluice.lists();
        let now = sluice.clock().now();
        let added = self.0.lock();
        let file_entries = entries_of(&local, list).iter().map(|it| ListEntry {
            condition: it.to_string(),
            source: EntrySource::File,
            expires_in: None,
        });
        let runtime_entries = entries_of(&shared, list).iter().map(|it| {
            let known = added.iter().find(|known| known.list == list && known.condition == *it);
            let until = known.and_then(|known| known.expires_at);
            let expires_in = until.map(|until| until.saturating_since(now));
            ListEntry {
                condition: it.to_string(),
                source: if is_shared { EntrySource::Cluster } else { EntrySource::Process },
                expires_in,
            }
        });
        file_entries.chain(runtime_entries).collect()
    }
}

/// Returns one of the two lists.
pub(crate) fn entries_of(lists: &Lists, list: ListKind) -> &[Expr] {
    match list {
        ListKind::Allow => &lists.allow,
        ListKind::Deny => &lists.deny,
    }
}

fn apply(sluice: &Sluice, added: &[RuntimeEntry]) -> Result<(), RuleSetError> {
    let all = |list: ListKind| added.iter().filter(move |it| it.list == list).map(|it| it.condition.clone()).collect();
    sluice.set_shared_lists(Lists { allow: all(ListKind::Allow), deny: all(ListKind::Deny) })
}
