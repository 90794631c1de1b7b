//! One condition and since when it holds.

use std::time::Duration;

use sluicegate_engine::Timestamp;
use sluicegate_engine::rule::{Comparison, Condition};

use crate::readings::Reading;

/// A condition that is looked at again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    condition: Condition,
    reading: Reading,
    /// Since when it has held by its enter value.
    since: Option<Timestamp>,
    /// Whether the strain it stands for is over, by its exit value.
    over: bool,
}

impl Watched {
    pub(super) fn new(mut condition: Condition) -> Self {
        // An exit value on the wrong side would end a strain before it began.
        condition.exit = match condition.comparison {
            Comparison::Above | Comparison::AtLeast => condition.exit.min(condition.enter),
            Comparison::Below | Comparison::AtMost => condition.exit.max(condition.enter),
        };
        Self { condition, reading: Reading::NotYet, since: None, over: true }
    }

    pub(super) const fn condition(&self) -> &Condition {
        &self.condition
    }

    pub(super) const fn reading(&self) -> Option<f64> {
        self.reading.value()
    }

    /// Notes what was read. Unknown: the condition does not hold; nor is its strain over if `late`, because an answer
    /// is due that would tell.
    pub(super) fn look(&mut self, now: Timestamp, reading: Reading, late: bool) {
        let Condition { comparison, enter, exit, .. } = self.condition;
        self.reading = reading;
        let reading = reading.value();
        self.since = match reading {
            Some(reading) if comparison.holds(reading, enter) => Some(self.since.unwrap_or(now)),
            _ => None,
        };
        self.over = match reading {
            Some(reading) => !comparison.holds(reading, exit),
            None => !late,
        };
    }

    /// Whether its signal cannot be read.
    pub(super) const fn is_unreadable(&self) -> bool {
        matches!(self.reading, Reading::Unreadable)
    }

    /// Whether it holds now.
    pub(super) const fn holds(&self) -> bool {
        self.since.is_some()
    }

    /// Whether it has held for as long as it must; `usual`: how long that is where it does not say itself.
    pub(super) fn has_lasted(&self, now: Timestamp, usual: Duration) -> bool {
        self.since.is_some_and(|since| now - since >= self.condition.lasting.unwrap_or(usual))
    }

    /// Whether its strain is over.
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    /// What was read beside what it is compared with: `load5 5.2 > 4`, or `load5 cannot be read`.
    pub(super) fn in_words(&self) -> String {
        let Condition { signal, comparison, enter, .. } = self.condition;
        match self.reading() {
            Some(reading) => {
                let (reading, enter) = (signal.written(reading), signal.written(enter));
                format!("{} {reading} {} {enter}", signal.name(), comparison.sign())
            }
            None => format!("{} cannot be read", signal.name()),
        }
    }
}
