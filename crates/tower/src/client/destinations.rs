//! Bounded table of tracked destinations.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;

use super::destination::{Destination, DestinationState};
use super::pacer::Pace;

/// Names are truncated to this; no host is longer.
const MAX_NAME_BYTES: usize = 255;

/// Destinations by name, at most `max_destinations` plus those in use.
///
/// If the table is full, recovered destinations are evicted, which loses no valid hint. If there are none,
/// the one that recovers first is evicted early, and that is counted.
#[derive(Debug)]
pub(super) struct Destinations {
    map: Mutex<DestinationMap>,
    max_destinations: usize,
    pace: Pace,
    max_hold: Duration,
}

#[derive(Debug, Default)]
struct DestinationMap {
    by_name: HashMap<Arc<str>, Arc<Destination>>,
    evicted_early: u64,
}

impl Destinations {
    pub(super) fn new(max_destinations: usize, pace: Pace, max_hold: Duration) -> Self {
        Self { map: Mutex::default(), max_destinations: max_destinations.max(1), pace, max_hold }
    }

    /// The destination of this name, created if it is new.
    pub(super) fn get(&self, name: &str, now: Timestamp) -> Arc<Destination> {
        let name = &name[..name.floor_char_boundary(MAX_NAME_BYTES)];
        let mut known = self.map.lock();
        if let Some(destination) = known.by_name.get(name) {
            return Arc::clone(destination);
        }
        if known.by_name.len() >= self.max_destinations {
            known.make_room(self.max_destinations, now);
        }
        let name: Arc<str> = Arc::from(name);
        let destination = Destination::new(Arc::clone(&name), self.pace, self.max_hold);
        known.by_name.insert(name, Arc::clone(&destination));
        destination
    }

    /// The states of all destinations, sorted by name.
    pub(super) fn states(&self, now: Timestamp) -> Vec<DestinationState> {
        let all: Vec<Arc<Destination>> = self.map.lock().by_name.values().cloned().collect();
        let mut states: Vec<DestinationState> = all.iter().map(|destination| destination.state(now)).collect();
        states.sort_by(|a, b| a.name.cmp(&b.name));
        states
    }

    pub(super) fn evicted_early(&self) -> u64 {
        self.map.lock().evicted_early
    }
}

impl DestinationMap {
    fn make_room(&mut self, max: usize, now: Timestamp) {
        // Destinations are only handed out by this table, which is locked.
        let in_use = |destination: &Arc<Destination>| Arc::strong_count(destination) > 1;
        self.by_name.retain(|_, destination| in_use(destination) || destination.recovered_at() > now);
        // More than one, if more were in use at once than the limit.
        while self.by_name.len() >= max {
            let idle = self.by_name.values().filter(|destination| !in_use(destination));
            let soonest = idle.min_by_key(|destination| destination.recovered_at());
            let Some(name) = soonest.map(|destination| Arc::clone(destination.name())) else { return };
            self.by_name.remove(&name);
            self.evicted_early += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_http_adapter::server_hints::ServerHints;

    use super::*;

    const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

    fn hold(destinations: &Destinations, name: &str, seconds: u64) {
        destinations.get(name, NOW).hold(Duration::from_secs(seconds), Duration::ZERO, NOW);
    }

    fn names(destinations: &Destinations) -> Vec<String> {
        destinations.states(NOW).into_iter().map(|state| state.name).collect()
    }

    #[test]
    fn recovered_destinations_are_evicted_first() {
        let destinations = Destinations::new(3, Pace::Budget, Duration::from_secs(3_600));
        hold(&destinations, "a", 10);
        hold(&destinations, "b", 5);
        destinations.get("free", NOW);
        hold(&destinations, "c", 20);
        assert_eq!(names(&destinations), ["a", "b", "c"]);
        assert_eq!(destinations.evicted_early(), 0);
        hold(&destinations, "d", 30);
        assert_eq!(names(&destinations), ["a", "c", "d"]);
        assert_eq!(destinations.evicted_early(), 1);
    }

    #[test]
    fn destinations_in_use_are_never_evicted() {
        let destinations = Destinations::new(1, Pace::Budget, Duration::from_secs(3_600));
        let used = destinations.get("used", NOW);
        destinations.get("other", NOW);
        destinations.get("third", NOW);
        assert_eq!(names(&destinations), ["third", "used"]);
        drop(used);
    }

    /// Many in use at once, none recovered when released: the table must shrink back
    /// to its limit.
    #[test]
    fn released_destinations_are_evicted_down_to_the_limit() {
        let destinations = Destinations::new(2, Pace::Budget, Duration::from_secs(3_600));
        let used: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| destinations.get(name, NOW)).into();
        for (destination, seconds) in used.iter().zip(1..) {
            destination.hold(Duration::from_secs(seconds), Duration::ZERO, NOW);
        }
        drop(used);
        hold(&destinations, "f", 6);
        assert_eq!(names(&destinations), ["e", "f"]);
        assert_eq!(destinations.evicted_early(), 4);
    }

    #[test]
    fn a_flood_of_names_is_bounded() {
        let destinations = Destinations::new(50, Pace::Budget, Duration::from_secs(3_600));
        for number in 0..5_000 {
            hold(&destinations, &format!("{number}.{}", "é".repeat(300)), 10);
        }
        let names = names(&destinations);
        assert_eq!(names.len(), 50);
        assert!(names.iter().all(|name| name.len() <= MAX_NAME_BYTES));
    }

    #[test]
    fn a_response_after_eviction_is_harmless() {
        let destination = Destination::new(Arc::from("a"), Pace::Budget, Duration::from_secs(3_600));
        let bounds = super::super::destination::WaitBounds { deadline: NOW, max_waiting: 1 };
        let ticket = destination.new_ticket();
        let claim = destination.try_claim(ticket, NOW, bounds, std::task::Waker::noop()).unwrap();
        let in_flight = claim.send(NOW).unwrap();
        in_flight.on_response(&ServerHints::default(), Duration::ZERO, NOW);
        assert_eq!(destination.state(NOW).in_flight, 0);
    }
}
