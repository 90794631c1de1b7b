//! Local share of a limit for a store outage.

use crate::algorithm::NodeShare;
use crate::limit::{Limit, LimitError};

/// One of `nodes` equal shares of a limit. All shares together admit no more than the limit, except that a
/// burst is rounded up to one. `None` if a share would be zero: fewer permits than processes.
///
/// ```
/// use sluicegate_engine::{Limit, store::share_of};
///
/// let whole: Limit = "300/1m".parse()?;
/// assert_eq!(share_of(whole, 4)?, Some("75/1m".parse()?));
/// // Less than one per process and window: one in a longer window.
/// assert_eq!(share_of("2/1m".parse()?, 5)?, Some("1/3m".parse()?));
/// assert_eq!(share_of(Limit::concurrency(3)?, 4)?, None);
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
pub fn share_of(limit: Limit, nodes: u32) -> Result<Option<Limit>, LimitError> {
    limit.share(NodeShare::new(nodes))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Rate;
    use crate::algorithm::Alignment;

    /// Every algorithm has a share, and the share for one process is the limit itself.
    #[test]
    fn every_algorithm_has_a_share() {
        let (rate, minute) = (Rate::per_second(10).unwrap(), Duration::from_secs(60));
        let limits = [
            Limit::token_bucket(rate, 25),
            Limit::bandwidth(rate, 25),
            Limit::leaky_bucket(rate, 25),
            Limit::fixed_window(25, minute, Alignment::Epoch),
            Limit::sliding_window(25, minute, 10),
            Limit::interpolated_window(25, minute),
            Limit::sliding_log(25, minute),
            Limit::concurrency(25),
            Limit::warm_up(rate, minute, 3),
        ];
        for limit in limits.map(Result::unwrap) {
            assert_eq!(share_of(limit, 1).unwrap(), Some(limit));
            let share = share_of(limit, 5).unwrap().unwrap();
            if !matches!(limit, Limit::WarmUp(_)) {
                assert_eq!(share.capacity(), 5, "{limit}");
            }
            assert_eq!(share_of(limit, 0).unwrap(), Some(limit));
            assert!(share_of(limit, 1_000).is_ok(), "{limit}");
        }
    }

    #[test]
    fn sum_of_shares_never_exceeds_the_limit() {
        for limit in 1..40u64 {
            for nodes in 1..40u32 {
                let whole = Limit::sliding_window(limit, Duration::from_secs(60), 10).unwrap();
                let Some(Limit::SlidingWindow(share)) = share_of(whole, nodes).unwrap() else { panic!() };
                let sum = u128::from(nodes) * u128::from(share.limit()) * Duration::from_secs(60).as_nanos();
                assert!(sum <= u128::from(limit) * share.window().as_nanos(), "{limit} on {nodes}");
            }
        }
    }
}
