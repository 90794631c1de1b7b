//! Number of processes that share the store, with damping against undercounts.
//!
//! An undercount would make each process take too large a share of the limits while the store is lost. A store
//! that has just lost its data knows no process until each sends a heartbeat, so a lower count is accepted only
//! after the higher one has not been seen for a while. Pure: the caller passes counts and times.

use std::time::{Duration, Instant};

/// The last accepted node count.
#[derive(Debug, Default)]
pub(super) struct NodeCount {
    last: Option<(u32, Instant)>,
}

impl NodeCount {
    /// Applies a count and returns the accepted one; a higher count stays valid for `hold_time`.
    pub(super) fn update(&mut self, nodes: u32, now: Instant, hold_time: Duration) -> u32 {
        match self.last {
            Some((known, counted_at)) if nodes < known && now.saturating_duration_since(counted_at) < hold_time => {
                known
            }
            _ => {
                self.last = Some((nodes, now));
                nodes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_count_is_accepted_after_a_delay_and_a_higher_one_at_once() {
        let (start, hold_time) = (Instant::now(), Duration::from_secs(5));
        let mut node_count = NodeCount::default();
        let mut counted = |second, nodes| node_count.update(nodes, start + Duration::from_secs(second), hold_time);
        assert_eq!([counted(0, 1), counted(1, 3), counted(2, 3)], [1, 3, 3]);
        assert_eq!([counted(3, 1), counted(6, 2)], [3, 3]);
        assert_eq!([counted(7, 2), counted(8, 4), counted(9, 4)], [2, 4, 4]);
    }
}
