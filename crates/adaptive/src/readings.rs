//! Values of all signals at one time.

use sluicegate_engine::overload::Throughput;
use sluicegate_engine::rule::Signal;

/// The value of every signal, each in its own unit.
///
/// Unknown values are of two kinds: a rate that needs two samples will be known at the next one, and without
/// requests there are no response times. An unreadable signal stays unreadable until the cause is fixed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Readings([Reading; Signal::ALL.len()]);

/// Reading of one signal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Reading {
    /// The value.
    Value(f64),
    /// Not known yet: the next sample may give it.
    #[default]
    NotYet,
    /// The signal could not be read.
    Unreadable,
}

impl Reading {
    /// Returns the value, if it is known.
    pub const fn value(self) -> Option<f64> {
        match self {
            Self::Value(value) => Some(value),
            Self::NotYet | Self::Unreadable => None,
        }
    }
}

impl Readings {
    /// All signals unknown.
    pub const UNKNOWN: Self = Self([Reading::NotYet; Signal::ALL.len()]);

    /// Returns the value of a signal, if it is known.
    pub const fn get(&self, signal: Signal) -> Option<f64> {
        self.reading(signal).value()
    }

    /// Returns the reading of a signal.
    pub const fn reading(&self, signal: Signal) -> Reading {
        self.0[signal as usize]
    }

    /// True if a signal could not be read.
    pub const fn is_unreadable(&self, signal: Signal) -> bool {
        matches!(self.reading(signal), Reading::Unreadable)
    }

    /// Sets the value of a signal; `None` if it is not known yet.
    pub const fn set(&mut self, signal: Signal, value: Option<f64>) {
        let reading = match value {
            Some(value) => Reading::Value(value),
            None => Reading::NotYet,
        };
        self.record(signal, reading);
    }

    /// Records the reading of a signal. NaN counts as unreadable.
    pub const fn record(&mut self, signal: Signal, reading: Reading) {
        self.0[signal as usize] = match reading {
            Reading::Value(value) if value.is_nan() => Reading::Unreadable,
            reading => reading,
        };
    }

    /// Returns the readings with the request signals of one rule added.
    #[must_use]
    pub const fn with_requests(mut self, throughput: &Throughput) -> Self {
        self.set(Signal::AverageResponseTime, throughput.average);
        self.set(Signal::MedianResponseTime, throughput.p50);
        self.set(Signal::ResponseTime90, throughput.p90);
        self.set(Signal::ResponseTime99, throughput.p99);
        self.set(Signal::InFlight, Some(throughput.in_flight as f64));
        self.set(Signal::RequestsPerSecond, Some(throughput.arrivals));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signal_has_its_own_slot() {
        let mut readings = Readings::UNKNOWN;
        for (index, signal) in Signal::ALL.into_iter().enumerate() {
            readings.set(signal, Some(index as f64));
        }
        for (index, signal) in Signal::ALL.into_iter().enumerate() {
            assert_eq!(readings.get(signal), Some(index as f64), "{}", signal.name());
        }
    }

    #[test]
    fn not_yet_differs_from_unreadable() {
        let mut readings = Readings::UNKNOWN;
        assert!(!readings.is_unreadable(Signal::Cpu));
        readings.set(Signal::Cpu, None);
        assert_eq!((readings.reading(Signal::Cpu), readings.get(Signal::Cpu)), (Reading::NotYet, None));
        for unreadable in [Reading::Unreadable, Reading::Value(f64::NAN)] {
            readings.record(Signal::Cpu, unreadable);
            assert!(readings.is_unreadable(Signal::Cpu));
            assert_eq!(readings.get(Signal::Cpu), None);
        }
    }
}
