//! How many processes share the store, read with care.
//!
//! Too few would be believed at everybody's cost: each process would take a larger share of the limits when
//! the store is lost. A store that has just lost its memory knows nobody until they name themselves again,
//! so a lower count holds only once the higher one has not been heard for a while. Pure: the caller says
//! what was counted and when.

use std::time::{Duration, Instant};

/// What is known of how many there are.
#[derive(Debug, Default)]
pub(super) struct Census {
    known: Option<(u32, Instant)>,
}

impl Census {
    /// So many were counted. How many there are, given that a higher count stands for `lasting`.
    pub(super) fn counted(&mut self, nodes: u32, now: Instant, lasting: Duration) -> u32 {
        match self.known {
            Some((known, heard)) if nodes < known && now.saturating_duration_since(heard) < lasting => known,
            _ => {
                self.known = Some((nodes, now));
                nodes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_are_believed_late_and_more_at_once() {
        let (begun, lasting) = (Instant::now(), Duration::from_secs(5));
        let mut census = Census::default();
        let mut counted = |second, nodes| census.counted(nodes, begun + Duration::from_secs(second), lasting);
        assert_eq!([counted(0, 1), counted(1, 3), counted(2, 3)], [1, 3, 3]);
        assert_eq!([counted(3, 1), counted(6, 2)], [3, 3]);
        assert_eq!([counted(7, 2), counted(8, 4), counted(9, 4)], [2, 4, 4]);
    }
}
