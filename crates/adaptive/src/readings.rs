//! What was read of all signals, at one moment.

use sluicegate_engine::gate::Passing;
use sluicegate_engine::rule::Signal;

/// The value of every signal, each in its own unit.
///
/// What is not known is told apart: a rate that takes two looks to tell will be there at the next one, and requests that
/// nobody makes have no times. A signal that cannot be read stays dark until somebody mends that.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Readings([Reading; Signal::ALL.len()]);

/// What is known of a signal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reading {
    /// This.
    Value(f64),
    /// Nothing yet: the next look may tell.
    #[default]
    NotYet,
    /// Nothing: it could not be read.
    Unreadable,
}

impl Reading {
    /// The value, if it is known.
    pub const fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::NotYet | Self::Unreadable => None,
        }
    }
}

impl Readings {
    /// Nothing is known yet.
    pub const UNKNOWN: Self = Self([Reading::NotYet; Signal::ALL.len()]);

    /// The value of a signal, if it is known.
    pub const fn get(&self, signal: Signal) -> Option<f64> {
        self.known(signal).value()
    }

    /// What is known of a signal.
    pub const fn known(&self, signal: Signal) -> Reading {
        self.0[signal as usize]
    }

    /// Whether a signal could not be read.
    pub const fn is_unreadable(&self, signal: Signal) -> bool {
        matches!(self.known(signal), Reading::Unreadable)
    }

    /// Notes the value of a signal; `None`: it is not known yet.
    pub const fn set(&mut self, signal: Signal, value: Option<f64>) {
        let reading = match value {
            Some(value) => Reading::Value(value),
            None => Reading::NotYet,
        };
        self.note(signal, reading);
    }

    /// Notes what is known of a signal. What is no number cannot be read.
    pub const fn note(&mut self, signal: Signal, reading: Reading) {
        self.0[signal as usize] = match reading {
            Reading::Value(value) if value.is_nan() => Reading::Unreadable,
            reading => reading,
        };
    }

    /// The same readings, with those of one rule's requests.
    #[must_use]
    pub const fn with_requests(mut self, passing: &Passing) -> Self {
        self.set(Signal::AverageResponseTime, passing.average);
        self.set(Signal::MedianResponseTime, passing.p50);
        self.set(Signal::ResponseTime90, passing.p90);
        self.set(Signal::ResponseTime99, passing.p99);
        self.set(Signal::InFlight, Some(passing.in_flight as f64));
        self.set(Signal::RequestsPerSecond, Some(passing.arrivals));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_a_place_of_its_own() {
        let mut readings = Readings::UNKNOWN;
        for (nth, signal) in Signal::ALL.into_iter().enumerate() {
            readings.set(signal, Some(nth as f64));
        }
        for (nth, signal) in Signal::ALL.into_iter().enumerate() {
            assert_eq!(readings.get(signal), Some(nth as f64), "{}", signal.name());
        }
    }

    #[test]
    fn what_is_not_known_yet_is_not_what_cannot_be_read() {
        let mut readings = Readings::UNKNOWN;
        assert!(!readings.is_unreadable(Signal::Cpu));
        readings.set(Signal::Cpu, None);
        assert_eq!((readings.known(Signal::Cpu), readings.get(Signal::Cpu)), (Reading::NotYet, None));
        for lost in [Reading::Unreadable, Reading::Value(f64::NAN)] {
            readings.note(Signal::Cpu, lost);
            assert!(readings.is_unreadable(Signal::Cpu));
            assert_eq!(readings.get(Signal::Cpu), None);
        }
    }
}
