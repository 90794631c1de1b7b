//! Health state of a server, from active health checks.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sluicegate_config::settings::HealthCheck;

/// Change of the health state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthTransition {
    /// The server became unhealthy.
    Unhealthy,
    /// The server became healthy.
    Healthy,
}

/// Consecutive check results that contradict the current state. A server is initially healthy.
#[derive(Debug, Default)]
pub(super) struct HealthStreak {
    is_unhealthy: bool,
    count: u32,
}

impl HealthStreak {
    /// Records a result; returns the change of state, if any.
    pub(super) fn record(&mut self, is_ok: bool, check: &HealthCheck) -> Option<HealthTransition> {
        if is_ok != self.is_unhealthy {
            self.count = 0;
            return None;
        }
        self.count += 1;
        if self.count < if self.is_unhealthy { check.successes } else { check.failures } {
            return None;
        }
        self.count = 0;
        self.is_unhealthy = !self.is_unhealthy;
        Some(if self.is_unhealthy { HealthTransition::Unhealthy } else { HealthTransition::Healthy })
    }
}

/// Health state of a server.
#[derive(Debug, Default)]
pub(super) struct HealthState {
    is_unhealthy: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl HealthState {
    /// True if the server gets no requests.
    #[inline]
    pub(super) fn is_unhealthy(&self) -> bool {
        self.is_unhealthy.load(Ordering::Relaxed)
    }

    /// Marks the server as unhealthy.
    pub(super) fn mark_unhealthy(&self, reason: String) {
        *self.reason.lock() = Some(reason);
        self.is_unhealthy.store(true, Ordering::Relaxed);
    }

    /// Marks the server as healthy.
    pub(super) fn mark_healthy(&self) {
        self.is_unhealthy.store(false, Ordering::Relaxed);
        self.reason.lock().take();
    }

    /// Reason, if unhealthy.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_changes_after_the_configured_number_of_results_in_a_row() {
        let check = HealthCheck { failures: 3, successes: 2, ..HealthCheck::new("/") };
        let mut streak = HealthStreak::default();
        let results = [true, false, false, true, false, false, false, false, true, false, true, true, true, false];
        let transitions: Vec<_> = results.into_iter().map(|is_ok| streak.record(is_ok, &check)).collect();
        let mut expected = vec![None; results.len()];
        expected[6] = Some(HealthTransition::Unhealthy);
        expected[11] = Some(HealthTransition::Healthy);
        assert_eq!(transitions, expected);
    }

    #[test]
    fn one_result_is_enough_if_configured() {
        let check = HealthCheck { failures: 1, successes: 1, ..HealthCheck::new("/") };
        let mut streak = HealthStreak::default();
        assert_eq!(streak.record(false, &check), Some(HealthTransition::Unhealthy));
        assert_eq!(streak.record(true, &check), Some(HealthTransition::Healthy));
    }
}
