//! What is counted of the reference's limits beyond what their rules count.
//!
//! | what | why no rule counts it |
//! |---|---|
//! | limits of zero | nothing is kept for them, so they have no rule |
//! | values that a file wants told apart: `detailed_metric`, `value_to_metric` | a rule counts all its keys together |
//!
//! Values come from clients, who can make up as many as they like, of any length. So the first so many are told apart,
//! for as long as the process lives, and only those that are short. The rest is counted together.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

/// How many are told apart: of limits of zero, and of values.
pub(super) const MOST_SERIES: usize = 1_000;

/// The longest text of values that is told apart, in bytes.
pub(super) const LONGEST_ENTRIES: usize = 256;

/// How a descriptor fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Admitted,
    Refused,
    /// It was over a limit that only watches.
    WouldRefuse,
}

/// How often a limit of envoyproxy/ratelimit's files was asked, or one of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitCounts {
    /// The limit's name; `None`: of all those together that there was no room for.
    pub limit: Option<String>,
    /// The entries with these values, such as `path=/a`. Empty where values are not told apart.
    pub entries: String,
    /// Descriptors that were admitted.
    pub admitted: u64,
    /// Descriptors that were over the limit.
    pub refused: u64,
    /// Descriptors that were over a limit that only watches, and were admitted.
    pub would_refuse: u64,
}

/// The counts. Nothing is locked for long: once a series is known, counting only reads.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) zero_limits: Book,
    pub(super) values: Book,
}

/// Series of one kind.
#[derive(Default)]
pub(super) struct Book {
    known: RwLock<Known>,
    others: Counters,
}

#[derive(Default)]
struct Known {
    /// By limit, and then by entries.
    limits: HashMap<Box<str>, HashMap<Box<str>, Counters>>,
    count: usize,
}

#[derive(Default)]
struct Counters {
    admitted: AtomicU64,
    refused: AtomicU64,
    would_refuse: AtomicU64,
}

impl Book {
    /// Counts a descriptor.
    pub(super) fn count(&self, limit: &str, entries: &str, fate: Fate) {
        if entries.len() > LONGEST_ENTRIES {
            return self.others.add(fate);
        }
        let known = self.known.read();
        if let Some(counters) = known.get(limit, entries) {
            return counters.add(fate);
        }
        if known.is_full() {
            return self.others.add(fate);
        }
        drop(known);
        self.known.write().get_or_add(limit, entries).unwrap_or(&self.others).add(fate);
    }

    /// All of them.
    pub(super) fn read(&self) -> Vec<LimitCounts> {
        let known = self.known.read();
        let series = known.limits.iter().flat_map(|(limit, series)| {
            series.iter().map(|(entries, counters)| counters.read(Some(limit.to_string()), entries.to_string()))
        });
        let others = self.others.read(None, String::new());
        let any_others = others.admitted + others.refused + others.would_refuse > 0;
        series.chain(any_others.then_some(others)).collect()
    }
}

impl Known {
    fn is_full(&self) -> bool {
        self.count >= MOST_SERIES
    }

    fn get(&self, limit: &str, entries: &str) -> Option<&Counters> {
        self.limits.get(limit)?.get(entries)
    }

    /// As long as there is room.
    fn get_or_add(&mut self, limit: &str, entries: &str) -> Option<&Counters> {
        if self.get(limit, entries).is_none() && !self.is_full() {
            self.limits.entry(limit.into()).or_default().insert(entries.into(), Counters::default());
            self.count += 1;
        }
        self.get(limit, entries)
    }
}

impl Counters {
    fn add(&self, fate: Fate) {
        let counter = match fate {
            Fate::Admitted => &self.admitted,
            Fate::Refused => &self.refused,
            Fate::WouldRefuse => &self.would_refuse,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self, limit: Option<String>, entries: String) -> LimitCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (admitted, refused) = (count(&self.admitted), count(&self.refused));
        LimitCounts { limit, entries, admitted, refused, would_refuse: count(&self.would_refuse) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_clients_make_up_do_not_become_series_for_ever() {
        let book = Book::default();
        for nth in 0..3 * MOST_SERIES {
            book.count(if nth % 2 == 0 { "a" } else { "b" }, &format!("path={nth}"), Fate::Admitted);
        }
        // Who is known stays so.
        book.count("a", "path=0", Fate::Refused);
        let told = book.read();
        assert_eq!(told.len(), MOST_SERIES + 1);
        let of = |limit: Option<&str>, entries: &str| {
            let found = told.iter().find(|it| it.limit.as_deref() == limit && it.entries == entries);
            found.map(|it| (it.admitted, it.refused, it.would_refuse))
        };
        assert_eq!(of(Some("a"), "path=0"), Some((1, 1, 0)));
        assert_eq!(of(Some("b"), "path=0"), None);
        assert_eq!(of(None, ""), Some((2 * MOST_SERIES as u64, 0, 0)));
    }

    #[test]
    fn long_values_are_not_kept() {
        let book = Book::default();
        book.count("a", &"x".repeat(LONGEST_ENTRIES + 1), Fate::WouldRefuse);
        let told = book.read();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].limit.as_deref(), told[0].entries.as_str(), told[0].would_refuse), (None, "", 1));
        book.count("a", &"x".repeat(LONGEST_ENTRIES), Fate::WouldRefuse);
        assert_eq!(book.read().len(), 2);
    }

    #[test]
    fn what_nobody_asked_for_is_not_told() {
        assert_eq!(Book::default().read(), []);
    }
}
