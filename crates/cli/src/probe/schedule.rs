//! When the requests of a step leave: decided before the first one does.
//!
//! The loop is open. A request leaves at its time whether earlier ones were answered or not, as the clients of a
//! real service do, who know nothing of each other. A loop that waits for an answer before it asks again slows down
//! with the service, and so never sees the line that would have formed.

use std::ops::Range;
use std::time::Duration;

/// This much of a step is warm-up: a fifth.
const WARM_UP: u32 = 5;
/// A step is long enough for so many requests, however slow they come.
const FEWEST: f64 = 10.0;

/// A step of constant rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    /// Requests per second.
    pub(super) rate: f64,
    pub(super) length: Duration,
}

impl Schedule {
    /// A step of this length, or longer if it would have too few requests to tell anything.
    pub(super) fn new(rate: f64, length: Duration) -> Self {
        let enough = Duration::try_from_secs_f64(FEWEST / rate).unwrap_or(Duration::MAX);
        Self { rate, length: length.max(enough) }
    }

    /// When the nth request leaves, from the step's beginning. `None` once the step is over.
    pub(super) fn due(&self, nth: u64) -> Option<Duration> {
        let due = Duration::try_from_secs_f64(nth as f64 / self.rate).ok()?;
        (due < self.length).then_some(due)
    }

    /// The part that counts.
    pub(super) fn measured(&self) -> Range<Duration> {
        self.length / WARM_UP..self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_leave_evenly_and_end_with_the_step() {
        let schedule = Schedule::new(200.0, Duration::from_secs(5));
        let dues: Vec<Duration> = (0..).map_while(|nth| schedule.due(nth)).collect();
        assert_eq!(dues.len(), 1_000);
        assert_eq!((dues[0], dues[1]), (Duration::ZERO, Duration::from_millis(5)));
        assert!(dues.iter().all(|due| *due < schedule.length));
        let counted = dues.iter().filter(|due| schedule.measured().contains(due)).count();
        assert_eq!(counted, 800, "the first fifth is warm-up");
    }

    #[test]
    fn the_time_of_a_request_does_not_drift() {
        let schedule = Schedule::new(3.0, Duration::from_secs(3_600));
        assert_eq!(schedule.due(10_797), Some(Duration::from_secs(3_599)), "thirds are not added up");
    }

    #[test]
    fn slow_steps_are_long_enough_to_tell_something() {
        let schedule = Schedule::new(2.0, Duration::from_secs(1));
        assert_eq!(schedule.length, Duration::from_secs(5));
        let counted = (0..).map_while(|nth| schedule.due(nth)).filter(|due| schedule.measured().contains(due)).count();
        assert_eq!(counted, 8);
        assert_eq!(Schedule::new(1_000.0, Duration::from_secs(1)).length, Duration::from_secs(1));
    }
}
