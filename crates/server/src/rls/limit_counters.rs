//! Limit counters: results of the ratelimit configuration that no rule counts.
//!
//! | counted | reason |
//! |---|---|
//! | limits of zero | they store nothing, so they have no rule |
//! | values with `detailed_metric` or `value_to_metric` | a rule counts all its keys together |
//!
//! Values come from clients and are unbounded in number and length. Only a limited number of short values get a
//! series, for the life of the process. All others are counted together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

/// Maximum number of series: of limits of zero, and of values.
pub(super) const MAX_SERIES: usize = 1_000;

/// Maximum length of the values of a series, in bytes.
pub(super) const MAX_ENTRIES_BYTES: usize = 256;

/// The outcome of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DescriptorOutcome {
    Admitted,
    Refused,
    /// Over a limit in shadow mode.
    WouldRefuse,
}

/// Counts of a limit of the envoyproxy/ratelimit configuration, or of one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitCounts {
    /// Name of the limit; `None` for the overflow series.
    pub limit: Option<String>,
    /// The entries with their values, such as `path=/a`. Empty without detailed metrics.
    pub entries: String,
    /// Descriptors admitted.
    pub admitted: u64,
    /// Descriptors over the limit.
    pub refused: u64,
    /// Descriptors over a limit in shadow mode, and thus admitted.
    pub would_refuse: u64,
}

/// All limit counters. Once a series exists, counting takes only a read lock.
#[derive(Default)]
pub(super) struct LimitCounters {
    pub(super) zero_limits: SeriesCounters,
    pub(super) detailed: SeriesCounters,
}

/// Series of one kind.
#[derive(Default)]
pub(super) struct SeriesCounters {
    series: RwLock<SeriesMap>,
    overflow: OutcomeCounters,
}

#[derive(Default)]
struct SeriesMap {
    /// By limit, then by entries.
    limits: HashMap<Box<str>, HashMap<Box<str>, OutcomeCounters>>,
    count: usize,
}

#[derive(Default)]
struct OutcomeCounters {
    admitted: AtomicU64,
    refused: AtomicU64,
    would_refuse: AtomicU64,
}

impl SeriesCounters {
    /// Counts a descriptor.
    pub(super) fn count(&self, limit: &str, entries: &str, outcome: DescriptorOutcome) {
        if entries.len() > MAX_ENTRIES_BYTES {
            return self.overflow.add(outcome);
        }
        let known = self.series.read();
        if let Some(counters) = known.get(limit, entries) {
            return counters.add(outcome);
        }
        if known.is_full() {
            return self.overflow.add(outcome);
        }
        drop(known);
        self.series.write().get_or_add(limit, entries).unwrap_or(&self.overflow).add(outcome);
    }

    /// Returns all counts.
    pub(super) fn snapshot(&self) -> Vec<LimitCounts> {
        let known = self.series.read();
        let series = known.limits.iter().flat_map(|(limit, series)| {
            series.iter().map(|(entries, counters)| counters.snapshot(Some(limit.to_string()), entries.to_string()))
        });
        let others = self.overflow.snapshot(None, String::new());
        let any_others = others.admitted + others.refused + others.would_refuse > 0;
        series.chain(any_others.then_some(others)).collect()
    }
}

impl SeriesMap {
    fn is_full(&self) -> bool {
        self.count >= MAX_SERIES
    }

    fn get(&self, limit: &str, entries: &str) -> Option<&OutcomeCounters> {
        self.limits.get(limit)?.get(entries)
    }

    /// Adds a series if there is room.
    fn get_or_add(&mut self, limit: &str, entries: &str) -> Option<&OutcomeCounters> {
        if self.get(limit, entries).is_none() && !self.is_full() {
            self.limits.entry(limit.into()).or_default().insert(entries.into(), OutcomeCounters::default());
            self.count += 1;
        }
        self.get(limit, entries)
    }
}

impl OutcomeCounters {
    fn add(&self, outcome: DescriptorOutcome) {
        let counter = match outcome {
            DescriptorOutcome::Admitted => &self.admitted,
            DescriptorOutcome::Refused => &self.refused,
            DescriptorOutcome::WouldRefuse => &self.would_refuse,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn snapshot(&self, limit: Option<String>, entries: String) -> LimitCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (admitted, refused) = (count(&self.admitted), count(&self.refused));
        LimitCounts { limit, entries, admitted, refused, would_refuse: count(&self.would_refuse) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_chosen_values_do_not_add_series_without_bound() {
        let counters = SeriesCounters::default();
        for index in 0..3 * MAX_SERIES {
            counters.count(
                if index % 2 == 0 { "a" } else { "b" },
                &format!("path={index}"),
                DescriptorOutcome::Admitted,
            );
        }
        // Existing series are kept.
        counters.count("a", "path=0", DescriptorOutcome::Refused);
        let counts = counters.snapshot();
        assert_eq!(counts.len(), MAX_SERIES + 1);
        let of = |limit: Option<&str>, entries: &str| {
            let found = counts.iter().find(|it| it.limit.as_deref() == limit && it.entries == entries);
            found.map(|it| (it.admitted, it.refused, it.would_refuse))
        };
        assert_eq!(of(Some("a"), "path=0"), Some((1, 1, 0)));
        assert_eq!(of(Some("b"), "path=0"), None);
        assert_eq!(of(None, ""), Some((2 * MAX_SERIES as u64, 0, 0)));
    }

    #[test]
    fn long_values_get_no_series() {
        let counters = SeriesCounters::default();
        counters.count("a", &"x".repeat(MAX_ENTRIES_BYTES + 1), DescriptorOutcome::WouldRefuse);
        let counts = counters.snapshot();
        assert_eq!(counts.len(), 1);
        assert_eq!((counts[0].limit.as_deref(), counts[0].entries.as_str(), counts[0].would_refuse), (None, "", 1));
        counters.count("a", &"x".repeat(MAX_ENTRIES_BYTES), DescriptorOutcome::WouldRefuse);
        assert_eq!(counters.snapshot().len(), 2);
    }

    #[test]
    fn unused_counters_report_nothing() {
        assert_eq!(SeriesCounters::default().snapshot(), []);
    }
}
