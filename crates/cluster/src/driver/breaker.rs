//! Whether the store is worth asking.
//!
//! Closed, it counts failures in a row; a few, or a single decisive one, open it. Open, only a probe that
//! passed closes it. Pure: the caller says what happened and when.

use std::time::Instant;

use crate::error::Weight;

/// How many failures in a row open it.
const FEW: u32 = 3;

/// A breaker, closed at first.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    open_since: Option<Instant>,
    /// When the last of those that passed was sent.
    passed: Option<Instant>,
}

impl Breaker {
    /// A call passed. An open breaker does not mind: its call was sent before it opened.
    pub(super) fn passed(&mut self, sent: Instant) {
        self.failures = 0;
        self.passed = self.passed.max(Some(sent));
    }

    /// A call failed. Whether that opened the breaker.
    pub(super) const fn failed(&mut self, weight: Weight, now: Instant) -> bool {
        self.failures = match weight {
            Weight::None => return false,
            Weight::Counts => self.failures.saturating_add(1),
            Weight::Decides => FEW,
        };
        let opens = self.open_since.is_none() && self.failures >= FEW;
        if opens {
            self.open_since = Some(now);
        }
        opens
    }

    /// A probe passed: the store is asked again.
    pub(super) fn close(&mut self, sent: Instant) {
        self.passed(sent);
        self.open_since = None;
    }

    /// What a call of then says that is unanswered for far too long: everything, unless one sent later passed.
    pub(super) fn silence_since(&self, then: Instant) -> Weight {
        if self.passed.is_some_and(|passed| passed > then) { Weight::None } else { Weight::Decides }
    }

    pub(super) const fn open_since(&self) -> Option<Instant> {
        self.open_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_in_a_row_open_it_once() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        assert!(!breaker.failed(Weight::Counts, now) && !breaker.failed(Weight::Counts, now));
        breaker.passed(now);
        assert!(!breaker.failed(Weight::Counts, now) && !breaker.failed(Weight::Counts, now));
        assert!(!breaker.failed(Weight::None, now) && breaker.open_since().is_none());
        assert!(breaker.failed(Weight::Counts, now));
        assert!(!breaker.failed(Weight::Counts, now) && !breaker.failed(Weight::Decides, now));
        assert_eq!(breaker.open_since(), Some(now));
    }

    #[test]
    fn a_decisive_failure_opens_it_and_a_probe_alone_closes_it() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        assert!(breaker.failed(Weight::Decides, now));
        breaker.passed(now);
        assert_eq!(breaker.open_since(), Some(now));
        breaker.close(now);
        assert_eq!(breaker.open_since(), None);
        assert!(!breaker.failed(Weight::Counts, now));
    }

    #[test]
    fn silence_decides_only_if_nothing_sent_later_passed() {
        let now = Instant::now();
        let later = now + std::time::Duration::from_millis(1);
        let mut breaker = Breaker::default();
        assert_eq!(breaker.silence_since(now), Weight::Decides);
        breaker.passed(now);
        assert_eq!(breaker.silence_since(now), Weight::Decides);
        breaker.passed(later);
        assert_eq!(breaker.silence_since(now), Weight::None);
        assert_eq!(breaker.silence_since(later), Weight::Decides);
    }
}
