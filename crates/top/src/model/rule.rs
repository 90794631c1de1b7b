//! Statistics of a rule over time: rates, and the traffic of the last minute.

use std::collections::VecDeque;
use std::time::Duration;

use crate::api_types::RuleStats;

/// Number of past rates that are stored.
const HISTORY_LEN: usize = 60;

/// A table row of a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RuleRow {
    pub(crate) figures: RuleStats,
    /// Absent until there are two samples.
    pub(crate) rates: Option<Rates>,
    /// All checks per second, the latest last.
    pub(crate) history: VecDeque<f64>,
}

/// Average rates per second since the previous sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    pub(crate) admitted: f64,
    pub(crate) refused: f64,
    pub(crate) banned: f64,
}

impl RuleRow {
    pub(super) const fn new(figures: RuleStats) -> Self {
        Self { figures, rates: None, history: VecDeque::new() }
    }

    /// Updates the rule with a later sample. Counters that went back were reset: then there are no rates.
    pub(super) fn update(mut self, later: RuleStats, after: Duration) -> Self {
        self.rates = Rates::between(&self.figures, &later, after);
        if let Some(rates) = self.rates {
            self.history.push_back(rates.admitted + rates.refused + rates.banned);
            self.history.drain(..self.history.len().saturating_sub(HISTORY_LEN));
        }
        self.figures = later;
        self
    }
}

impl Rates {
    fn between(one: &RuleStats, later: &RuleStats, after: Duration) -> Option<Self> {
        let rate = |one: u64, later: u64| {
            let delta = later.checked_sub(one)?;
            Some(delta as f64 / after.as_secs_f64()).filter(|rate| rate.is_finite())
        };
        Some(Self {
            admitted: rate(one.admitted, later.admitted)?,
            refused: rate(one.refused, later.refused)?,
            banned: rate(one.banned, later.banned)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(admitted: u64, refused: u64) -> RuleStats {
        RuleStats { admitted, refused, ..RuleStats::default() }
    }

    #[test]
    fn rates_are_deltas_over_elapsed_time() {
        let row = RuleRow::new(figures(100, 0)).update(figures(150, 5), Duration::from_millis(500));
        assert_eq!(row.rates, Some(Rates { admitted: 100.0, refused: 10.0, banned: 0.0 }));
        assert_eq!(row.history, [110.0]);
        let after_reset = row.update(figures(3, 0), Duration::from_secs(1));
        assert_eq!((after_reset.rates, after_reset.history.len()), (None, 1));
        let row = after_reset.update(figures(4, 0), Duration::ZERO);
        assert_eq!(row.rates, None, "no time has passed");
    }

    #[test]
    fn history_is_bounded() {
        let mut row = RuleRow::new(figures(0, 0));
        for nth in 1..200 {
            row = row.update(figures(nth * nth, 0), Duration::from_secs(1));
        }
        assert_eq!((row.history.len(), row.history.back()), (HISTORY_LEN, Some(&397.0)));
    }
}
