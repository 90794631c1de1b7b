//! Log of signals that become unreadable or readable again.

use sluicegate_engine::rule::Signal;

use crate::readings::Reading;

/// Signals that were unreadable at the last reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AvailabilityLog([bool; Signal::ALL.len()]);

/// Change of a signal's availability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AvailabilityChange {
    /// It has become unreadable.
    Lost,
    /// It is readable again.
    Restored,
}

impl AvailabilityLog {
    /// Records a reading, and logs a change.
    pub(super) fn record(&mut self, signal: Signal, reading: Reading) {
        match self.change(signal, reading) {
            Some(AvailabilityChange::Lost) => {
                tracing::warn!(signal = signal.name(), "signal cannot be read: conditions on it do not hold");
            }
            Some(AvailabilityChange::Restored) => tracing::info!(signal = signal.name(), "signal can be read again"),
            None => {}
        }
    }

    fn change(&mut self, signal: Signal, reading: Reading) -> Option<AvailabilityChange> {
        let is_lost = &mut self.0[signal as usize];
        match reading {
            Reading::Unreadable if !*is_lost => {
                *is_lost = true;
                Some(AvailabilityChange::Lost)
            }
            Reading::Value(_) if *is_lost => {
                *is_lost = false;
                Some(AvailabilityChange::Restored)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_reported_once() {
        let mut log = AvailabilityLog::default();
        let readings = [
            Reading::NotYet,
            Reading::Value(1.0),
            Reading::Unreadable,
            Reading::Unreadable,
            Reading::NotYet,
            Reading::Value(2.0),
        ];
        let changes: Vec<_> = readings.into_iter().map(|reading| log.change(Signal::Cpu, reading)).collect();
        assert_eq!(
            changes,
            [None, None, Some(AvailabilityChange::Lost), None, None, Some(AvailabilityChange::Restored)]
        );
        assert_eq!(
            log.change(Signal::HostCpu, Reading::Unreadable),
            Some(AvailabilityChange::Lost),
            "signals are independent"
        );
    }
}
