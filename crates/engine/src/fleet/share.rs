//! What one process may admit by itself while the store is lost.

use crate::limit::{Limit, LimitError, Rate};

/// One of `nodes` equal shares of a limit: all shares together admit no more than the limit does, but for
/// the rounding up of a burst to one. `None` where a share would be nothing at all: fewer permits than
/// processes.
///
/// ```
/// use sluicegate_engine::{Limit, fleet::share_of};
///
/// let whole: Limit = "300/1m".parse()?;
/// assert_eq!(share_of(whole, 4)?, Some("75/1m".parse()?));
/// // Less than one per process and window: one in a longer window.
/// assert_eq!(share_of("2/1m".parse()?, 5)?, Some("1/3m".parse()?));
/// assert_eq!(share_of(Limit::concurrency(3)?, 4)?, None);
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
pub fn share_of(limit: Limit, nodes: u32) -> Result<Option<Limit>, LimitError> {
    let nodes = nodes.max(1);
    let part = |whole: u64| (whole / u64::from(nodes)).max(1);
    // One in so many windows, where one in each would be too much.
    let stretch = |limit: u64| match limit {
        0 => 1,
        limit => u64::from(nodes).div_ceil(limit).clamp(1, u64::from(u32::MAX)) as u32,
    };
    let share = match limit {
        Limit::TokenBucket(bucket) => Limit::token_bucket(slower(bucket.rate(), nodes)?, part(bucket.burst()))?,
        Limit::Bandwidth(bucket) => Limit::bandwidth(slower(bucket.rate(), nodes)?, part(bucket.burst()))?,
        Limit::LeakyBucket(bucket) => Limit::leaky_bucket(slower(bucket.rate(), nodes)?, part(bucket.queue()))?,
        Limit::WarmUp(it) => {
            let rate = slower(it.rate(), nodes)?;
            // A share that passes less than one in its warm-up time is always cold: pace it plainly.
            let cold = |_| Limit::token_bucket(slower(rate, it.cold_factor())?, 1);
            Limit::warm_up(rate, it.warm_up(), it.cold_factor()).or_else(cold)?
        }
        Limit::FixedWindow(it) => {
            Limit::fixed_window(part(it.limit()), it.window().saturating_mul(stretch(it.limit())), it.alignment())?
        }
        Limit::SlidingWindow(it) => {
            Limit::sliding_window(part(it.limit()), it.window().saturating_mul(stretch(it.limit())), it.cells())?
        }
        Limit::InterpolatedWindow(it) => {
            Limit::interpolated_window(part(it.limit()), it.window().saturating_mul(stretch(it.limit())))?
        }
        Limit::SlidingLog(it) => Limit::sliding_log(part(it.limit()), it.window().saturating_mul(stretch(it.limit())))?,
        Limit::Concurrency(it) => match it.limit() / u64::from(nodes) {
            0 => return Ok(None),
            permits => Limit::concurrency(permits)?,
        },
    };
    Ok(Some(share))
}

/// The rate divided, without rounding where the period allows.
fn slower(rate: Rate, nodes: u32) -> Result<Rate, LimitError> {
    match rate.period().checked_mul(nodes) {
        Some(period) => Rate::new(rate.count(), period).or_else(|_| by_count(rate, nodes)),
        None => by_count(rate, nodes),
    }
}

fn by_count(rate: Rate, nodes: u32) -> Result<Rate, LimitError> {
    Rate::new((rate.count() / u64::from(nodes)).max(1), rate.period())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::Alignment;

    /// Whatever the limit, every kind has a share, and one of one is the limit itself.
    #[test]
    fn every_kind_has_a_share() {
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
    fn shares_never_add_up_to_more_per_time() {
        for limit in 1..40u64 {
            for nodes in 1..40u32 {
                let whole = Limit::sliding_window(limit, Duration::from_secs(60), 10).unwrap();
                let Some(Limit::SlidingWindow(share)) = share_of(whole, nodes).unwrap() else { panic!() };
                let together = u128::from(nodes) * u128::from(share.limit()) * Duration::from_secs(60).as_nanos();
                assert!(together <= u128::from(limit) * share.window().as_nanos(), "{limit} on {nodes}");
            }
        }
    }
}
