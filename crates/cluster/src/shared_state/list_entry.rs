//! Entries of the cluster's allow and deny lists as stored.

use std::time::Duration;

use sluicegate_engine::rule::{Expr, Lists};

/// The list an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// Admitted without limits.
    Allow,
    /// Refused, unless also on the allow list.
    Deny,
}

impl ListKind {
    const fn prefix(self) -> char {
        match self {
            Self::Allow => '+',
            Self::Deny => '-',
        }
    }
}

/// A change to the cluster's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListChange {
    pub(crate) kind: ListKind,
    /// The condition, as text.
    pub(crate) text: String,
    pub(crate) change: EntryChange,
}

/// Operation on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryChange {
    /// Adds the entry, with a time to live if given.
    Add(Option<Duration>),
    /// Restores an entry the store has lost; changes made since take precedence.
    Restore(Option<Duration>),
    /// Removes the entry.
    Remove,
}

impl ListChange {
    /// Decodes a stored entry from its hash field; `None` if the field is foreign.
    pub(super) fn from_field(field: &str, left: Option<Duration>) -> Option<Self> {
        let mut text = field.chars();
        let kind = match text.next()? {
            '+' => ListKind::Allow,
            '-' => ListKind::Deny,
            _ => return None,
        };
        Some(Self { kind, text: text.as_str().to_owned(), change: EntryChange::Add(left) })
    }

    /// The entry's hash field in the store.
    pub(super) fn field(&self) -> String {
        format!("{}{}", self.kind.prefix(), self.text)
    }

    /// The time to live as a script argument.
    pub(super) fn ttl_argument(&self) -> String {
        let millis = |time: Option<Duration>| match time {
            None => 0,
            Some(time) => i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1),
        };
        match self.change {
            EntryChange::Add(time) => millis(time).to_string(),
            EntryChange::Restore(time) => format!("r{}", millis(time)),
            EntryChange::Remove => "-1".to_owned(),
        }
    }
}

/// Builds the lists from these entries. Entries that do not parse are skipped: another process may run a newer
/// version.
pub(crate) fn build_lists(entries: &[ListChange]) -> Lists {
    let mut lists = Lists::default();
    let mut entries: Vec<&ListChange> = entries.iter().collect();
    entries.sort_by(|one, other| one.text.cmp(&other.text));
    for entry in entries {
        let list = match entry.kind {
            ListKind::Allow => &mut lists.allow,
            ListKind::Deny => &mut lists.deny,
        };
        list.extend(Expr::parse(&entry.text).ok());
    }
    lists
}
