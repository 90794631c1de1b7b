//! What health checks found out about one server.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use sluicegate_config::settings::HealthCheck;

/// How a server turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It gets no more requests.
    Out,
    /// It gets them again.
    In,
}

/// Results in a row that speak against how the server is taken now. It is well until found otherwise.
#[derive(Debug, Default)]
pub(super) struct Tally {
    out: bool,
    contrary: u32,
}

impl Tally {
    /// Notes a result. Answers how the server turns by it, if it does.
    pub(super) fn note(&mut self, well: bool, check: &HealthCheck) -> Option<Turn> {
        if well != self.out {
            self.contrary = 0;
            return None;
        }
        self.contrary += 1;
        if self.contrary < if self.out { check.successes } else { check.failures } {
            return None;
        }
        self.contrary = 0;
        self.out = !self.out;
        Some(if self.out { Turn::Out } else { Turn::In })
    }
}

/// Whether health checks have taken a server out.
#[derive(Debug, Default)]
pub(super) struct Watched {
    out: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Watched {
    /// Whether it gets no requests.
    #[inline]
    pub(super) fn is_out(&self) -> bool {
        self.out.load(Ordering::Relaxed)
    }

    /// Takes it out.
    pub(super) fn take_out(&self, reason: String) {
        *self.reason.lock() = Some(reason);
        self.out.store(true, Ordering::Relaxed);
    }

    /// Lets it in again.
    pub(super) fn let_in(&self) {
        self.out.store(false, Ordering::Relaxed);
        self.reason.lock().take();
    }

    /// Why it is out, if it is.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn out_and_in_after_as_many_in_a_row_as_said() {
        let check = HealthCheck { failures: 3, successes: 2, ..HealthCheck::new("/") };
        let mut tally = Tally::default();
        let results = [true, false, false, true, false, false, false, false, true, false, true, true, true, false];
        let turns: Vec<_> = results.into_iter().map(|well| tally.note(well, &check)).collect();
        let mut expected = vec![None; results.len()];
        expected[6] = Some(Turn::Out);
        expected[11] = Some(Turn::In);
        assert_eq!(turns, expected);
    }

    #[test]
    fn one_is_enough_if_one_is_said() {
        let check = HealthCheck { failures: 1, successes: 1, ..HealthCheck::new("/") };
        let mut tally = Tally::default();
        assert_eq!(tally.note(false, &check), Some(Turn::Out));
        assert_eq!(tally.note(true, &check), Some(Turn::In));
    }
}
