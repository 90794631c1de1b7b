//! How many calls are under way at once.
//!
//! A call alone goes out at once. A further one beside it makes both smaller: near the store, where a round
//! trip is short, that costs more than it wins, so it is sent only when enough waits for it. Far from the
//! store, waiting for the line would cost a round trip, so it is sent at once too.

use std::time::Duration;

/// How many calls are under way to one primary at most.
const MOST: usize = 4;
/// How many calls are under way to a cluster at most, where each slot needs its own.
const MOST_TO_SLOTS: usize = 64;
/// How many must wait for a further call to a store that is near.
const SIZEABLE: usize = 32;
/// A longer round trip is far.
const FAR: Duration = Duration::from_millis(1);

/// What is known of the way to the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    has_slots: bool,
    /// Of the last calls, smoothed.
    round_trip: Duration,
}

impl Pace {
    pub(super) const fn new(has_slots: bool) -> Self {
        Self { has_slots, round_trip: Duration::ZERO }
    }

    /// A call was answered after this time.
    pub(super) fn took(&mut self, time: Duration) {
        self.round_trip = (self.round_trip.saturating_mul(7).saturating_add(time)) / 8;
    }

    /// How many must wait for the next call, with so many under way. `None` if there is room for none.
    pub(super) fn needed(&self, under_way: usize) -> Option<usize> {
        let most = if self.has_slots { MOST_TO_SLOTS } else { MOST };
        match under_way {
            0 => Some(1),
            _ if under_way >= most => None,
            _ if self.has_slots || self.round_trip > FAR => Some(1),
            _ => Some(SIZEABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_store_a_further_call_needs_many() {
        let mut pace = Pace::new(false);
        assert_eq!([0, 1, 3, 4].map(|calls| pace.needed(calls)), [Some(1), Some(SIZEABLE), Some(SIZEABLE), None]);
        for _ in 0..50 {
            pace.took(Duration::from_millis(3));
        }
        assert_eq!([0, 1, 3, 4].map(|calls| pace.needed(calls)), [Some(1), Some(1), Some(1), None]);
        for _ in 0..50 {
            pace.took(Duration::from_micros(100));
        }
        assert_eq!(pace.needed(1), Some(SIZEABLE));
    }

    #[test]
    fn slots_do_not_wait_for_each_other() {
        let pace = Pace::new(true);
        assert_eq!([0, 1, 63, 64].map(|calls| pace.needed(calls)), [Some(1), Some(1), Some(1), None]);
    }
}
