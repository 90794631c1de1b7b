//! Outlier detection: passive ejection of failing servers (circuit breaker).
//!
//! After [`EJECTION_FAILURES`] consecutive failures a server is ejected, first for a second, then twice as long
//! each time, up to half a minute. When the ejection ends, one request at a time probes the server, until a
//! response arrives.
//!
//! Without failures this costs one atomic load per request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;
use sluicegate_engine::clock::ClockHandle;

/// Consecutive failures before an ejection.
const EJECTION_FAILURES: u32 = 3;
/// Duration of the first ejection.
const BASE_EJECTION_TIME: Duration = Duration::from_secs(1);
/// Maximum duration of an ejection.
const MAX_EJECTION_TIME: Duration = Duration::from_secs(30);

/// Availability of a server for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerAdmission {
    /// Available.
    Open,
    /// The ejection has ended, and this request is the probe.
    Probe(ProbeId),
    /// Ejected until this time; or another request probes the server, and this was the end of the ejection.
    Ejected(Timestamp),
}

/// Identifies one probe, so that an older one cannot end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeId(u64);

/// Failures since the last response. Independent of the clock.
#[derive(Debug, Default)]
struct OutlierState {
    /// Consecutive failures. Failures of requests that were in flight when the ejection began are not counted.
    failures: u32,
    /// End and duration of the ejection.
    ejection: Option<(Timestamp, Duration)>,
    probe: Option<ProbeId>,
    probes: u64,
}

impl OutlierState {
    fn admit(&mut self, now: Timestamp) -> ServerAdmission {
        match self.ejection {
            None => ServerAdmission::Open,
            Some((until, _)) if now < until || self.probe.is_some() => ServerAdmission::Ejected(until),
            Some(_) => {
                self.probes += 1;
                let probe = ProbeId(self.probes);
                self.probe = Some(probe);
                ServerAdmission::Probe(probe)
            }
        }
    }

    fn record_failure(&mut self, now: Timestamp, probe: Option<ProbeId>) {
        match self.ejection {
            None => {
                self.failures = self.failures.saturating_add(1);
                if self.failures >= EJECTION_FAILURES {
                    self.ejection = Some((now + BASE_EJECTION_TIME, BASE_EJECTION_TIME));
                }
            }
            Some((_, length)) if probe.is_some() && probe == self.probe => {
                self.failures = self.failures.saturating_add(1);
                let length = (length * 2).min(MAX_EJECTION_TIME);
                self.ejection = Some((now + length, length));
                self.probe = None;
            }
            // Sent before the ejection began, or because all servers were ejected: no new information.
            Some(_) => {}
        }
    }

    fn record_success(&mut self) {
        self.failures = 0;
        self.ejection = None;
        self.probe = None;
    }

    fn release_probe(&mut self, probe: ProbeId) {
        if self.probe == Some(probe) {
            self.probe = None;
        }
    }
}

/// Outlier detector of one server.
#[derive(Debug)]
pub(super) struct OutlierDetector {
    /// Set if anything failed since the last response; the locked state matters only then.
    has_failures: AtomicBool,
    state: Mutex<OutlierState>,
    clock: ClockHandle,
}

impl OutlierDetector {
    pub(super) fn new(clock: ClockHandle) -> Self {
        Self { has_failures: AtomicBool::new(false), state: Mutex::default(), clock }
    }

    /// Admits a request. A probe must be ended: by a response, a failure, or its release.
    #[inline]
    pub(super) fn admit(&self) -> ServerAdmission {
        if !self.has_failures.load(Ordering::Relaxed) {
            return ServerAdmission::Open;
        }
        let now = self.clock.now();
        self.state.lock().admit(now)
    }

    /// Records a response.
    #[inline]
    pub(super) fn record_success(&self) {
        if self.has_failures.load(Ordering::Relaxed) {
            let mut state = self.state.lock();
            state.record_success();
            self.has_failures.store(false, Ordering::Relaxed);
        }
    }

    /// Records a failure.
    pub(super) fn record_failure(&self, probe: Option<ProbeId>) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.record_failure(now, probe);
        self.has_failures.store(true, Ordering::Relaxed);
    }

    /// Releases a probe that gave no information about the server.
    pub(super) fn release_probe(&self, probe: ProbeId) {
        self.state.lock().release_probe(probe);
    }

    /// Consecutive failures, and the remaining ejection time, if ejected.
    pub(super) fn report(&self) -> (u32, Option<Duration>) {
        let now = self.clock.now();
        let state = self.state.lock();
        (state.failures, state.ejection.map(|(until, _)| until.saturating_since(now)))
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_engine::clock::{Clock, ManualClock};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn detector() -> (ManualClock, OutlierDetector) {
        let clock = ManualClock::new();
        (clock.clone(), OutlierDetector::new(clock.into()))
    }

    fn fail(detector: &OutlierDetector, times: u32) {
        (0..times).for_each(|_| detector.record_failure(None));
    }

    fn probe(detector: &OutlierDetector) -> ProbeId {
        match detector.admit() {
            ServerAdmission::Probe(probe) => probe,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn ejected_after_three_consecutive_failures_only() {
        let (clock, detector) = detector();
        for _ in 0..10 {
            fail(&detector, 2);
            assert_eq!(detector.admit(), ServerAdmission::Open);
            detector.record_success();
        }
        fail(&detector, 3);
        assert_eq!(detector.admit(), ServerAdmission::Ejected(clock.now() + SECOND));
        assert_eq!(detector.report(), (3, Some(SECOND)));
    }

    #[test]
    fn failures_during_an_ejection_do_not_prolong_it() {
        let (clock, detector) = detector();
        let until = clock.now() + SECOND;
        fail(&detector, 100);
        clock.advance(SECOND / 2);
        fail(&detector, 100);
        assert_eq!(detector.admit(), ServerAdmission::Ejected(until));
        clock.advance(SECOND / 2);
        probe(&detector);
    }

    #[test]
    fn one_probe_at_a_time() {
        let (clock, detector) = detector();
        fail(&detector, 3);
        clock.advance(SECOND);
        let until = clock.now();
        let first = probe(&detector);
        assert_eq!(detector.admit(), ServerAdmission::Ejected(until));
        detector.release_probe(first);
        let second = probe(&detector);
        // An older probe does not end the current one.
        detector.release_probe(first);
        detector.record_failure(Some(first));
        assert_eq!(detector.admit(), ServerAdmission::Ejected(until));
        detector.record_success();
        assert_eq!(detector.admit(), ServerAdmission::Open);
        detector.release_probe(second);
        assert_eq!((detector.admit(), detector.report()), (ServerAdmission::Open, (0, None)));
    }

    #[test]
    fn each_failed_probe_doubles_the_ejection_up_to_the_maximum() {
        let (clock, detector) = detector();
        fail(&detector, 3);
        for seconds in [1, 2, 4, 8, 16, 30, 30] {
            assert_eq!(detector.report().1, Some(Duration::from_secs(seconds)));
            clock.advance(Duration::from_secs(seconds) - Duration::from_nanos(1));
            assert!(matches!(detector.admit(), ServerAdmission::Ejected(_)));
            clock.advance(Duration::from_nanos(1));
            let failing = probe(&detector);
            detector.record_failure(Some(failing));
        }
        clock.advance(MAX_EJECTION_TIME);
        probe(&detector);
        detector.record_success();
        fail(&detector, 3);
        assert_eq!(detector.report().1, Some(BASE_EJECTION_TIME), "a response resets the failure count");
    }
}
