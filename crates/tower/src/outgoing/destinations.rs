//! The destinations that are remembered: a bounded table.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sluicegate_engine::Timestamp;

use super::destination::{Destination, DestinationState};
use super::pacer::Pace;

/// Names are cut here; no host is longer.
const LONGEST_NAME: usize = 255;

/// Destinations by name, never more than `most` of them plus those in use.
///
/// If there is no room for another, those that have recovered are forgotten, which loses nothing that
/// still holds. If none has, the one that recovers first is forgotten early, and that is counted.
#[derive(Debug)]
pub(super) struct Destinations {
    known: Mutex<Known>,
    most: usize,
    pace: Pace,
    longest: Duration,
}

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<Arc<str>, Arc<Destination>>,
    forgotten_early: u64,
}

impl Destinations {
    pub(super) fn new(most: usize, pace: Pace, longest: Duration) -> Self {
        Self { known: Mutex::default(), most: most.max(1), pace, longest }
    }

    /// The destination of this name, made if it is new.
    pub(super) fn get(&self, name: &str, now: Timestamp) -> Arc<Destination> {
        let name = &name[..name.floor_char_boundary(LONGEST_NAME)];
        let mut known = self.known.lock();
        if let Some(destination) = known.by_name.get(name) {
            return Arc::clone(destination);
        }
        if known.by_name.len() >= self.most {
            known.make_room(self.most, now);
        }
        let name: Arc<str> = Arc::from(name);
        let destination = Destination::new(Arc::clone(&name), self.pace, self.longest);
        known.by_name.insert(name, Arc::clone(&destination));
        destination
    }

    /// All of them, by name.
    pub(super) fn states(&self, now: Timestamp) -> Vec<DestinationState> {
        let all: Vec<Arc<Destination>> = self.known.lock().by_name.values().cloned().collect();
        let mut states: Vec<DestinationState> = all.iter().map(|destination| destination.state(now)).collect();
        states.sort_by(|a, b| a.name.cmp(&b.name));
        states
    }

    pub(super) fn forgotten_early(&self) -> u64 {
        self.known.lock().forgotten_early
    }
}

impl Known {
    fn make_room(&mut self, most: usize, now: Timestamp) {
        // Nobody gets hold of a destination but through this table, which is locked.
        let in_use = |destination: &Arc<Destination>| Arc::strong_count(destination) > 1;
        self.by_name.retain(|_, destination| in_use(destination) || destination.recovered_at() > now);
        // More than one too many if more were in use at once than there is room for.
        while self.by_name.len() >= most {
            let idle = self.by_name.values().filter(|destination| !in_use(destination));
            let soonest = idle.min_by_key(|destination| destination.recovered_at());
            let Some(name) = soonest.map(|destination| Arc::clone(destination.name())) else { return };
            self.by_name.remove(&name);
            self.forgotten_early += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_http::advice::Advice;

    use super::*;

    const NOW: Timestamp = Timestamp::from_nanos(1_000_000_000);

    fn held(destinations: &Destinations, name: &str, seconds: u64) {
        destinations.get(name, NOW).hold(Duration::from_secs(seconds), Duration::ZERO, NOW);
    }

    fn names(destinations: &Destinations) -> Vec<String> {
        destinations.states(NOW).into_iter().map(|state| state.name).collect()
    }

    #[test]
    fn recovered_ones_make_room_first_and_then_the_one_that_recovers_first() {
        let destinations = Destinations::new(3, Pace::Budget, Duration::from_secs(3_600));
        held(&destinations, "a", 10);
        held(&destinations, "b", 5);
        destinations.get("free", NOW);
        held(&destinations, "c", 20);
        assert_eq!(names(&destinations), ["a", "b", "c"]);
        assert_eq!(destinations.forgotten_early(), 0);
        held(&destinations, "d", 30);
        assert_eq!(names(&destinations), ["a", "c", "d"]);
        assert_eq!(destinations.forgotten_early(), 1);
    }

    #[test]
    fn what_is_in_use_is_never_forgotten() {
        let destinations = Destinations::new(1, Pace::Budget, Duration::from_secs(3_600));
        let used = destinations.get("used", NOW);
        destinations.get("other", NOW);
        destinations.get("third", NOW);
        assert_eq!(names(&destinations), ["third", "used"]);
        drop(used);
    }

    /// Many in use at once, none of which has recovered when it is used no more: the table must not keep
    /// the size it had.
    #[test]
    fn what_was_in_use_takes_no_room_afterwards() {
        let destinations = Destinations::new(2, Pace::Budget, Duration::from_secs(3_600));
        let used: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| destinations.get(name, NOW)).into();
        for (destination, seconds) in used.iter().zip(1..) {
            destination.hold(Duration::from_secs(seconds), Duration::ZERO, NOW);
        }
        drop(used);
        held(&destinations, "f", 6);
        assert_eq!(names(&destinations), ["e", "f"]);
        assert_eq!(destinations.forgotten_early(), 4);
    }

    #[test]
    fn a_flood_of_names_takes_no_more_room() {
        let destinations = Destinations::new(50, Pace::Budget, Duration::from_secs(3_600));
        for number in 0..5_000 {
            held(&destinations, &format!("{number}.{}", "é".repeat(300)), 10);
        }
        let names = names(&destinations);
        assert_eq!(names.len(), 50);
        assert!(names.iter().all(|name| name.len() <= LONGEST_NAME));
    }

    #[test]
    fn an_answer_after_the_destination_was_forgotten_upsets_nobody() {
        let destination = Destination::new(Arc::from("a"), Pace::Budget, Duration::from_secs(3_600));
        let patience = super::super::destination::Patience { deadline: NOW, most_waiting: 1 };
        let place = destination.arrive();
        let claim = destination.ask(place, NOW, patience, std::task::Waker::noop()).unwrap();
        let flying = claim.depart(NOW).unwrap();
        flying.answered(&Advice::default(), Duration::ZERO, NOW);
        assert_eq!(destination.state(NOW).in_flight, 0);
    }
}
