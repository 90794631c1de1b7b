//! What was read of all signals, at one moment.

use sluicegate_engine::gate::Passing;
use sluicegate_engine::rule::Signal;

/// The value of every signal, each in its own unit; `None`: it could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Readings([Option<f64>; Signal::ALL.len()]);

impl Readings {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self([None; Signal::ALL.len()]);

    /// The value of a signal. `None`: it could not be read.
    pub const fn get(&self, signal: Signal) -> Option<f64> {
        self.0[signal as usize]
    }

    /// Notes the value of a signal.
    pub const fn set(&mut self, signal: Signal, value: Option<f64>) {
        self.0[signal as usize] = value;
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
}
