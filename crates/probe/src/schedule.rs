//! Send schedule of a step (open-loop load).
//!
//! A request is sent at its time whether or not earlier responses have arrived, like the independent clients of a
//! real service. A closed loop, which waits for each response, slows down with the service and never sees the
//! queue that would form (coordinated omission).

use std::ops::Range;
use std::time::Duration;

/// Warm-up is one fifth of a step.
const WARM_UP_DIVISOR: u32 = 5;
/// Minimum number of requests of a step; slow steps are extended.
const MIN_REQUESTS: f64 = 10.0;

/// A step with a constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    /// Requests per second.
    pub(super) rate: f64,
    pub(super) length: Duration,
}

impl Schedule {
    /// Creates a step of this length, or longer if it would have too few requests.
    pub(super) fn new(rate: f64, length: Duration) -> Self {
        let enough = Duration::try_from_secs_f64(MIN_REQUESTS / rate).unwrap_or(Duration::MAX);
        Self { rate, length: length.max(enough) }
    }

    /// Send time of a request by its index, from the start of the step. `None` after the end of the step.
    pub(super) fn due(&self, index: u64) -> Option<Duration> {
        let due = Duration::try_from_secs_f64(index as f64 / self.rate).ok()?;
        (due < self.length).then_some(due)
    }

    /// The measured window, after warm-up.
    pub(super) fn measured_window(&self) -> Range<Duration> {
        self.length / WARM_UP_DIVISOR..self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_evenly_spaced_within_the_step() {
        let schedule = Schedule::new(200.0, Duration::from_secs(5));
        let dues: Vec<Duration> = (0..).map_while(|index| schedule.due(index)).collect();
        assert_eq!(dues.len(), 1_000);
        assert_eq!((dues[0], dues[1]), (Duration::ZERO, Duration::from_millis(5)));
        assert!(dues.iter().all(|due| *due < schedule.length));
        let measured = dues.iter().filter(|due| schedule.measured_window().contains(due)).count();
        assert_eq!(measured, 800, "the first fifth is warm-up");
    }

    #[test]
    fn the_time_of_a_request_does_not_drift() {
        let schedule = Schedule::new(3.0, Duration::from_secs(3_600));
        assert_eq!(schedule.due(10_797), Some(Duration::from_secs(3_599)), "rounding errors are not accumulated");
    }

    #[test]
    fn slow_steps_are_extended_to_the_minimum_requests() {
        let schedule = Schedule::new(2.0, Duration::from_secs(1));
        assert_eq!(schedule.length, Duration::from_secs(5));
        let measured =
            (0..).map_while(|index| schedule.due(index)).filter(|due| schedule.measured_window().contains(due)).count();
        assert_eq!(measured, 8);
        assert_eq!(Schedule::new(1_000.0, Duration::from_secs(1)).length, Duration::from_secs(1));
    }
}
