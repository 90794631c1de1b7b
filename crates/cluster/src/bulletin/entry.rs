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
    /// It is taken off.
    Remove,
}

impl ListChange {
    /// The entry as the store names it.
    pub(super) fn field(&self) -> String {
        format!("{}{}", self.kind.mark(), self.text)
    }

    /// How long it stands, as the script takes it.
    pub(super) fn lasts(&self) -> i64 {
        match self.change {
            Change::Add(None) => 0,
            Change::Add(Some(time)) => i64::try_from(time.as_millis()).unwrap_or(i64::MAX).max(1),
            Change::Remove => -1,
        }
    }
}

/// The lists that these entries make. What is no condition is left out: another process may know more
/// than this one.
pub(super) fn lists(fields: &[String]) -> Lists {
    let mut lists = Lists::default();
    let mut fields: Vec<&String> = fields.iter().collect();
    fields.sort();
    for field in fields {
        let mut text = field.chars();
        let list = match text.next() {
            Some('+') => &mut lists.allow,
            Some('-') => &mut lists.deny,
            _ => continue,
        };
        list.extend(Expr::parse(text.as_str()).ok());
    }
    lists
}
