//! Circuit breaker for the store.
//!
//! Closed, it counts consecutive failures; a few, or one that trips it, open it. Open, only a successful
//! probe closes it. Pure: the caller passes events and times.

use std::time::Instant;

use crate::error::BreakerEffect;

/// Consecutive failures that open the breaker.
const FAILURES_TO_OPEN: u32 = 3;

/// A circuit breaker, initially closed.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    open_since: Option<Instant>,
    /// Send time of the latest call that succeeded.
    last_success: Option<Instant>,
}

impl Breaker {
    /// Records a success. An open breaker stays open: the call was sent before it opened.
    pub(super) fn record_success(&mut self, sent: Instant) {
        self.failures = 0;
        self.last_success = self.last_success.max(Some(sent));
    }

    /// Records a failure. Returns true if it opened the breaker.
    pub(super) const fn record_failure(&mut self, effect: BreakerEffect, now: Instant) -> bool {
        self.failures = match effect {
            BreakerEffect::Ignore => return false,
            BreakerEffect::Count => self.failures.saturating_add(1),
            BreakerEffect::Trip => FAILURES_TO_OPEN,
        };
        let opens = self.open_since.is_none() && self.failures >= FAILURES_TO_OPEN;
        if opens {
            self.open_since = Some(now);
        }
        opens
    }

    /// Closes the breaker after a successful probe.
    pub(super) fn close(&mut self, sent: Instant) {
        self.record_success(sent);
        self.open_since = None;
    }

    /// Effect of a stalled call sent at `then`: trips the breaker, unless a call sent later succeeded.
    pub(super) fn silence_effect(&self, then: Instant) -> BreakerEffect {
        if self.last_success.is_some_and(|passed| passed > then) { BreakerEffect::Ignore } else { BreakerEffect::Trip }
    }

    pub(super) const fn open_since(&self) -> Option<Instant> {
        self.open_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_failures_open_it_once() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        assert!(
            !breaker.record_failure(BreakerEffect::Count, now) && !breaker.record_failure(BreakerEffect::Count, now)
        );
        breaker.record_success(now);
        assert!(
            !breaker.record_failure(BreakerEffect::Count, now) && !breaker.record_failure(BreakerEffect::Count, now)
        );
        assert!(!breaker.record_failure(BreakerEffect::Ignore, now) && breaker.open_since().is_none());
        assert!(breaker.record_failure(BreakerEffect::Count, now));
        assert!(
            !breaker.record_failure(BreakerEffect::Count, now) && !breaker.record_failure(BreakerEffect::Trip, now)
        );
        assert_eq!(breaker.open_since(), Some(now));
    }

    #[test]
    fn a_tripping_failure_opens_it_and_only_a_probe_closes_it() {
        let now = Instant::now();
        let mut breaker = Breaker::default();
        assert!(breaker.record_failure(BreakerEffect::Trip, now));
        breaker.record_success(now);
        assert_eq!(breaker.open_since(), Some(now));
        breaker.close(now);
        assert_eq!(breaker.open_since(), None);
        assert!(!breaker.record_failure(BreakerEffect::Count, now));
    }

    #[test]
    fn silence_trips_only_if_no_later_call_succeeded() {
        let now = Instant::now();
        let later = now + std::time::Duration::from_millis(1);
        let mut breaker = Breaker::default();
        assert_eq!(breaker.silence_effect(now), BreakerEffect::Trip);
        breaker.record_success(now);
        assert_eq!(breaker.silence_effect(now), BreakerEffect::Trip);
        breaker.record_success(later);
        assert_eq!(breaker.silence_effect(now), BreakerEffect::Ignore);
        assert_eq!(breaker.silence_effect(later), BreakerEffect::Trip);
    }
}
