//! Orders of rows, chosen by column.

use std::cmp::Ordering;

use super::{KeyRow, RuleRow};
use crate::top::wire::Ban;

/// A column that rows can be ordered by.
pub(in crate::top) trait Column: Copy + PartialEq + 'static {
    const ALL: &'static [Self];

    fn name(self) -> &'static str;
}

/// The order of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) struct Sort<C> {
    pub(in crate::top) column: C,
    pub(in crate::top) is_reversed: bool,
}

impl<C: Column> Sort<C> {
    pub(super) const fn by(column: C) -> Self {
        Self { column, is_reversed: false }
    }

    /// By the next column.
    pub(super) fn advance(&mut self) {
        let at = C::ALL.iter().position(|column| *column == self.column).unwrap_or(0);
        *self = Self::by(C::ALL[(at + 1) % C::ALL.len()]);
    }

    pub(super) const fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
    }

    /// Rows that are equal stay as they were.
    pub(super) fn apply<R>(self, rows: &mut [R], compare: impl Fn(C, &R, &R) -> Ordering) {
        rows.sort_by(|one, other| {
            let order = compare(self.column, one, other);
            if self.is_reversed { order.reverse() } else { order }
        });
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum RuleColumn {
    Limited,
    Passed,
    Banned,
    Waiting,
    Used,
    Name,
    /// As in the rule file.
    File,
}

impl Column for RuleColumn {
    const ALL: &'static [Self] =
        &[Self::Limited, Self::Passed, Self::Banned, Self::Waiting, Self::Used, Self::Name, Self::File];

    fn name(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::Passed => "passed",
            Self::Banned => "banned",
            Self::Waiting => "waiting",
            Self::Used => "used",
            Self::Name => "name",
            Self::File => "file",
        }
    }
}

impl RuleColumn {
    /// The most first, where it is a figure.
    pub(super) fn compare(self, one: &RuleRow, other: &RuleRow) -> Ordering {
        let rate = |row: &RuleRow| row.rates.map_or(0.0, |rates| self.rate(rates));
        match self {
            Self::Limited | Self::Passed | Self::Banned => rate(other)
                .total_cmp(&rate(one))
                // Without rates yet, or at rest: by what was counted.
                .then_with(|| self.total(other).cmp(&self.total(one))),
            Self::Waiting => other.figures.waiting.cmp(&one.figures.waiting),
            Self::Used => other.figures.used.unwrap_or(-1.0).total_cmp(&one.figures.used.unwrap_or(-1.0)),
            Self::Name => one.figures.name.cmp(&other.figures.name),
            Self::File => Ordering::Equal,
        }
    }

    const fn rate(self, rates: super::rule::Rates) -> f64 {
        match self {
            Self::Passed => rates.passed,
            Self::Banned => rates.banned,
            _ => rates.limited,
        }
    }

    const fn total(self, row: &RuleRow) -> u64 {
        match self {
            Self::Passed => row.figures.admitted,
            Self::Banned => row.figures.banned,
            _ => row.figures.refused,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum KeyColumn {
    Refused,
    Asked,
    Rule,
    Key,
}

impl Column for KeyColumn {
    const ALL: &'static [Self] = &[Self::Refused, Self::Asked, Self::Rule, Self::Key];

    fn name(self) -> &'static str {
        match self {
            Self::Refused => "limited",
            Self::Asked => "asked",
            Self::Rule => "rule",
            Self::Key => "key",
        }
    }
}

impl KeyColumn {
    pub(super) fn compare(self, one: &KeyRow<'_>, other: &KeyRow<'_>) -> Ordering {
        match self {
            Self::Refused => other.refused.cmp(&one.refused).then(other.asked.cmp(&one.asked)),
            Self::Asked => other.asked.cmp(&one.asked),
            Self::Rule => one.rule.cmp(other.rule),
            Self::Key => one.key.cmp(other.key),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::top) enum BanColumn {
    Remaining,
    Rule,
    Key,
}

impl Column for BanColumn {
    const ALL: &'static [Self] = &[Self::Remaining, Self::Rule, Self::Key];

    fn name(self) -> &'static str {
        match self {
            Self::Remaining => "time left",
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
