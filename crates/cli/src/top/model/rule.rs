//! A rule's figures over time: rates of the counts, and the traffic of the last minute.

use std::collections::VecDeque;
use std::time::Duration;

use crate::top::wire::RuleFigures;

/// How many past figures are remembered.
const PAST: usize = 60;

/// A rule as it is shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::top) struct RuleRow {
    pub(in crate::top) figures: RuleFigures,
    /// Absent until there are figures to compare with.
    pub(in crate::top) rates: Option<Rates>,
    /// All that asked, each second, the latest last.
    pub(in crate::top) past: VecDeque<f64>,
}

/// Each second, on the average since the figures before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::top) struct Rates {
    pub(in crate::top) passed: f64,
    pub(in crate::top) limited: f64,
    pub(in crate::top) banned: f64,
}

impl RuleRow {
    pub(super) const fn new(figures: RuleFigures) -> Self {
        Self { figures, rates: None, past: VecDeque::new() }
    }

    /// The same rule with later figures. Counts that went back were begun anew: then nothing can be said.
    pub(super) fn followed_by(mut self, later: RuleFigures, after: Duration) -> Self {
        self.rates = Rates::between(&self.figures, &later, after);
        if let Some(rates) = self.rates {
            self.past.push_back(rates.passed + rates.limited + rates.banned);
            self.past.drain(..self.past.len().saturating_sub(PAST));
        }
        self.figures = later;
        self
    }
}

impl Rates {
    fn between(one: &RuleFigures, later: &RuleFigures, after: Duration) -> Option<Self> {
        let rate = |one: u64, later: u64| {
            let many = later.checked_sub(one)?;
            Some(many as f64 / after.as_secs_f64()).filter(|rate| rate.is_finite())
        };
        Some(Self {
            passed: rate(one.admitted, later.admitted)?,
            limited: rate(one.refused, later.refused)?,
            banned: rate(one.banned, later.banned)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(admitted: u64, refused: u64) -> RuleFigures {
        RuleFigures { admitted, refused, ..RuleFigures::default() }
    }

    #[test]
    fn rates_are_what_was_added_in_the_time_it_took() {
        let row = RuleRow::new(figures(100, 0)).followed_by(figures(150, 5), Duration::from_millis(500));
        assert_eq!(row.rates, Some(Rates { passed: 100.0, limited: 10.0, banned: 0.0 }));
        assert_eq!(row.past, [110.0]);
        let begun_anew = row.followed_by(figures(3, 0), Duration::from_secs(1));
        assert_eq!((begun_anew.rates, begun_anew.past.len()), (None, 1));
        let row = begun_anew.followed_by(figures(4, 0), Duration::ZERO);
        assert_eq!(row.rates, None, "no time has passed");
    }

    #[test]
    fn the_past_is_bounded() {
        let mut row = RuleRow::new(figures(0, 0));
        for nth in 1..200 {
            row = row.followed_by(figures(nth * nth, 0), Duration::from_secs(1));
        }
        assert_eq!((row.past.len(), row.past.back()), (PAST, Some(&397.0)));
    }
}
