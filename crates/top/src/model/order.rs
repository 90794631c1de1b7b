//! Sort orders of the tables.

use std::cmp::Ordering;

use super::{KeyRow, RuleRow};
use crate::api_types::Ban;

/// A column that rows can be sorted by.
pub(crate) trait Column: Copy + PartialEq + 'static {
    const ALL: &'static [Self];

    fn name(self) -> &'static str;
}

/// Sort order of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort<C> {
    pub(crate) column: C,
    pub(crate) is_reversed: bool,
}

impl<C: Column> Sort<C> {
    pub(super) const fn by(column: C) -> Self {
        Self { column, is_reversed: false }
    }

    /// Switches to the next column.
    pub(super) fn advance(&mut self) {
        let at = C::ALL.iter().position(|column| *column == self.column).unwrap_or(0);
        *self = Self::by(C::ALL[(at + 1) % C::ALL.len()]);
    }

    pub(super) const fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
    }

    /// Sorts the rows; the sort is stable.
    pub(super) fn apply<R>(self, rows: &mut [R], compare: impl Fn(C, &R, &R) -> Ordering) {
        rows.sort_by(|one, other| {
            let order = compare(self.column, one, other);
            if self.is_reversed { order.reverse() } else { order }
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleColumn {
    Refused,
    Admitted,
    Banned,
    Waiting,
    Used,
    Name,
    /// Order of the rule file.
    File,
}

impl Column for RuleColumn {
    const ALL: &'static [Self] =
        &[Self::Refused, Self::Admitted, Self::Banned, Self::Waiting, Self::Used, Self::Name, Self::File];

    fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Admitted => "admitted",
            Self::Banned => "banned",
            Self::Waiting => "waiting",
            Self::Used => "used",
            Self::Name => "name",
            Self::File => "file",
        }
    }
}

impl RuleColumn {
    /// Compares two rows; numbers are in descending order.
    pub(super) fn compare(self, one: &RuleRow, other: &RuleRow) -> Ordering {
        let rate = |row: &RuleRow| row.rates.map_or(0.0, |rates| self.rate(rates));
        match self {
            Self::Refused | Self::Admitted | Self::Banned => rate(other)
                .total_cmp(&rate(one))
                // Without rates, or if all rates are zero: by total counts.
                .then_with(|| self.total(other).cmp(&self.total(one))),
            Self::Waiting => other.figures.waiting.cmp(&one.figures.waiting),
            Self::Used => other.figures.used.unwrap_or(-1.0).total_cmp(&one.figures.used.unwrap_or(-1.0)),
            Self::Name => one.figures.name.cmp(&other.figures.name),
            Self::File => Ordering::Equal,
        }
    }

    const fn rate(self, rates: super::rule::Rates) -> f64 {
        match self {
            Self::Admitted => rates.admitted,
            Self::Banned => rates.banned,
            _ => rates.refused,
        }
    }

    const fn total(self, row: &RuleRow) -> u64 {
        match self {
            Self::Admitted => row.figures.admitted,
            Self::Banned => row.figures.banned,
            _ => row.figures.refused,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyColumn {
    Refused,
    Checked,
    Rule,
    Key,
}

impl Column for KeyColumn {
    const ALL: &'static [Self] = &[Self::Refused, Self::Checked, Self::Rule, Self::Key];

    fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Checked => "checked",
            Self::Rule => "rule",
            Self::Key => "key",
        }
    }
}

impl KeyColumn {
    pub(super) fn compare(self, one: &KeyRow<'_>, other: &KeyRow<'_>) -> Ordering {
        match self {
            Self::Refused => other.refused.cmp(&one.refused).then(other.checked.cmp(&one.checked)),
            Self::Checked => other.checked.cmp(&one.checked),
            Self::Rule => one.rule.cmp(other.rule),
            Self::Key => one.key.cmp(other.key),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BanColumn {
    Remaining,
    Rule,
    Key,
}

impl Column for BanColumn {
    const ALL: &'static [Self] = &[Self::Remaining, Self::Rule, Self::Key];

    fn name(self) -> &'static str {
        match self {
            Self::Remaining => "remaining",
            Self::Rule => "rule",
            Self::Key => "key",
        }
    }
}

impl BanColumn {
    pub(super) fn compare(self, one: &Ban, other: &Ban) -> Ordering {
        match self {
            Self::Remaining => other.remaining.cmp(&one.remaining),
            Self::Rule => one.rule.cmp(&other.rule),
            Self::Key => one.key.cmp(&other.key),
        }
    }
}
