//! Entries of the fleet's lists as they stand in the store.

use std::time::Duration;

use sluicegate_engine::rule::{Expr, Lists};

/// Which list an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    /// Let through, unlimited.
    Allow,
    /// Turned away, unless allowed.
    Deny,
}

impl ListKind {
    const fn mark(self) -> char {
        match self {
            Self::Allow => '+',
            Self::Deny => '-',
        }
    }
}

/// A change of the fleet's lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListChange {
    pub(crate) kind: ListKind,
    /// The condition, as text.
    pub(crate) text: String,
    pub(crate) change: Change,
}

/// What happens to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It stands from now on, for so long if that is said.
    Add(Option<Duration>),
    /// It stood before the store lost it; what has been said since goes before.
    Again(Option<Duration>),
    /// It is taken off.
    Remove,
}

impl ListChange {
    /// An entry that stands, by the store's name of it; `None` if it is none of ours.
    pub(super) fn standing(field: &str, left: Option<Duration>) -> Option<Self> {
        let mut text = field.chars();
        let kind = match text.next()? {
            '+' => ListKind::Allow,
            '-' => ListKind::Deny,
            _ => return None,
        };
        Some(Self { kind, text: text.as_str().to_owned(), change: Change::Add(left) })
    }

    /// The entry as the store names it.
    pub(super) fn field(&self) -> String {
        format!("{}{}", self.kind.mark(), self.text)
    }

    /// How long it stands, as the script takes it.
    pub(super) fn lasts(&self) -> String {
        let lasting = |time: Option<Duration>| match time {
            None => 0,
            Some(time) => i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1),
        };
        match self.change {
            Change::Add(time) => lasting(time).to_string(),
            Change::Again(time) => format!("r{}", lasting(time)),
            Change::Remove => "-1".to_owned(),
        }
    }
}

/// The lists that these entries make. What is no condition is left out: another process may know more
/// than this one.
pub(crate) fn lists(entries: &[ListChange]) -> Lists {
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
