//! List entries that were added while the process runs.
//!
//! With a store they are the fleet's: the store keeps them, and tells every process. Without, they are kept here, by
//! the sluice's clock, and gone with the process.

use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_cluster::{ClusterStore, ListKind};
use sluicegate_engine::rule::{Expr, ExprError, Lists};
use sluicegate_engine::sluice::RuleSetError;
use sluicegate_engine::{Sluice, Timestamp};
use thiserror::Error;

/// The most entries kept here: they are arranged anew with each change.
const MOST: usize = 100_000;

/// Why an entry is not added or removed.
#[derive(Debug, Error)]
pub(crate) enum AddError {
    /// The condition makes no sense.
    #[error(transparent)]
    Condition(#[from] ExprError),
    /// There are too many.
    #[error("{MOST} entries were added already: put them into the rule file")]
    Full,
    /// The rules cannot be put in force with it.
    #[error(transparent)]
    Rules(#[from] RuleSetError),
}

/// Entries that were added here.
#[derive(Debug, Default)]
pub(crate) struct AddedLists(Mutex<Vec<Added>>);

/// An entry that was added here.
#[derive(Clone, Debug)]
struct Added {
    list: ListKind,
    condition: Expr,
    /// `None`: it stays.
    until: Option<Timestamp>,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    /// In the rule file.
    File,
    /// In this process.
    Here,
    /// In the store, for the whole fleet.
    Fleet,
}

/// An entry in force.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) condition: String,
    pub(crate) stands: Stands,
    pub(crate) expires_in: Option<Duration>,
}

impl AddedLists {
    /// Adds an entry, or says anew how long it lasts.
    pub(crate) fn add(
        &self,
        sluice: &Sluice,
        store: Option<&ClusterStore>,
        list: ListKind,
        condition: &str,
        lasting: Option<Duration>,
    ) -> Result<Entry, AddError> {
        let parsed = Expr::parse(condition)?;
        // Entries are known by their text, so there is one text for each.
        let text = parsed.to_string();
        if let Some(store) = store {
            store.enlist(list, &text, lasting)?;
            return Ok(Entry { condition: text, stands: Stands::Fleet, expires_in: lasting });
        }
        let mut added = self.0.lock();
        let before = added.clone();
        added.retain(|known| !(known.list == list && known.condition == parsed));
        if added.len() >= MOST {
            *added = before;
            return Err(AddError::Full);
        }
        let until = lasting.map(|lasting| sluice.clock().now() + lasting);
        added.push(Added { list, condition: parsed, until });
        if let Err(error) = put_in_force(sluice, &added) {
            *added = before;
            return Err(error.into());
        }
        Ok(Entry { condition: text, stands: Stands::Here, expires_in: lasting })
    }

    /// Removes an entry. Answers whether there was one.
    pub(crate) fn remove(
        &self,
        sluice: &Sluice,
        store: Option<&ClusterStore>,
        list: ListKind,
        condition: &str,
    ) -> Result<bool, AddError> {
        let parsed = Expr::parse(condition)?;
        if let Some(store) = store {
            let (_, further) = sluice.lists();
            let text = parsed.to_string();
            store.unlist(list, &text);
            if text != condition {
                // Others may have added it in other words.
                store.unlist(list, condition);
            }
            return Ok(of(&further, list).contains(&parsed));
        }
        let mut added = self.0.lock();
        let before = added.clone();
        added.retain(|known| !(known.list == list && known.condition == parsed));
        let removed = added.len() < before.len();
        if removed && let Err(error) = put_in_force(sluice, &added) {
            *added = before;
            return Err(error.into());
        }
        Ok(removed)
    }

    /// Lets go of entries whose time is up. Answers when the next one's is.
    pub(crate) fn expire(&self, sluice: &Sluice) -> Option<Timestamp> {
        let now = sluice.clock().now();
        let mut added = self.0.lock();
        let before = added.len();
        added.retain(|known| known.until.is_none_or(|until| until > now));
        if added.len() < before {
            // Only fails where the rules themselves cannot be put in force again, and they are in force.
            let _ = put_in_force(sluice, &added);
        }
        added.iter().filter_map(|known| known.until).min()
    }

    /// All entries of a list in force: those of the file first.
    pub(crate) fn entries(&self, sluice: &Sluice, is_fleet: bool, list: ListKind) -> Vec<Entry> {
        let (own, further) = sluice.lists();
        let now = sluice.clock().now();
        let added = self.0.lock();
        let of_file =
            of(&own, list).iter().map(|it| Entry { condition: it.to_string(), stands: Stands::File, expires_in: None });
        let of_others = of(&further, list).iter().map(|it| {
            let known = added.iter().find(|known| known.list == list && known.condition == *it);
            let until = known.and_then(|known| known.until);
            let expires_in = until.map(|until| until.saturating_since(now));
            Entry { condition: it.to_string(), stands: if is_fleet { Stands::Fleet } else { Stands::Here }, expires_in }
        });
        of_file.chain(of_others).collect()
    }
}

/// One of the lists.
pub(crate) fn of(lists: &Lists, list: ListKind) -> &[Expr] {
    match list {
        ListKind::Allow => &lists.allow,
        ListKind::Deny => &lists.deny,
    }
}

fn put_in_force(sluice: &Sluice, added: &[Added]) -> Result<(), RuleSetError> {
    let all = |list: ListKind| added.iter().filter(move |it| it.list == list).map(|it| it.condition.clone()).collect();
    sluice.set_further_lists(Lists { allow: all(ListKind::Allow), deny: all(ListKind::Deny) })
}
