//! One condition with the time since which it holds.

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::rule::{Comparison, Condition};

use crate::readings::Reading;

/// A condition that is evaluated at every step.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrackedCondition {
    condition: Condition,
    reading: Reading,
    /// Time since which it holds by its enter value.
    holds_since: Option<Timestamp>,
    /// True if its overload has ended by its exit value.
    is_over: bool,
}

impl TrackedCondition {
    pub(super) fn new(mut condition: Condition) -> Self {
        // An exit value on the wrong side would end an overload before it began.
        condition.exit = match condition.comparison {
            Comparison::Above | Comparison::AtLeast => condition.exit.min(condition.enter),
            Comparison::Below | Comparison::AtMost => condition.exit.max(condition.enter),
        };
        Self { condition, reading: Reading::NotYet, holds_since: None, is_over: true }
    }

    pub(super) const fn condition(&self) -> &Condition {
        &self.condition
    }

    pub(super) const fn reading(&self) -> Option<f64> {
        self.reading.value()
    }

    /// Records a reading. If it is unknown, the condition does not hold, and its overload has not ended if
    /// `response_due` is set, because a response that would show it is due.
    pub(super) fn observe(&mut self, now: Timestamp, reading: Reading, response_due: bool) {
        let Condition { comparison, enter, exit, .. } = self.condition;
        self.reading = reading;
        let reading = reading.value();
        self.holds_since = match reading {
            Some(reading) if comparison.holds(reading, enter) => Some(self.holds_since.unwrap_or(now)),
            _ => None,
        };
        self.is_over = match reading {
            Some(reading) => !comparison.holds(reading, exit),
            None => !response_due,
        };
    }

    /// True if its signal cannot be read.
    pub(super) const fn is_unreadable(&self) -> bool {
        matches!(self.reading, Reading::Unreadable)
    }

    /// True if it holds now.
    pub(super) const fn holds(&self) -> bool {
        self.holds_since.is_some()
    }

    /// True if it has held for its minimum duration; `default` is the default duration.
    pub(super) fn has_lasted(&self, now: Timestamp, default: Duration) -> bool {
        self.holds_since.is_some_and(|since| now - since >= self.condition.min_duration.unwrap_or(default))
    }

    /// True if its overload has ended.
    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Formats the reading and its threshold: `load5 5.2 > 4`, or `load5 cannot be read`.
    pub(super) fn describe(&self) -> String {
        let Condition { signal, comparison, enter, .. } = self.condition;
        match self.reading() {
            Some(reading) => {
                let (reading, enter) = (signal.format(reading), signal.format(enter));
                format!("{} {reading} {} {enter}", signal.name(), comparison.symbol())
            }
            None => format!("{} cannot be read", signal.name()),
        }
    }
}
