//! A rule's limits as the scripts take them.
//!
//! The scripts count in whole microseconds of the store's clock and in numbers that are exact up to 2^53.
//! Preparing restates each limit in these units, always to the strict side: windows and cells that are no
//! whole number of microseconds are rounded up. What cannot be told in such numbers is refused here, so
//! the scripts never meet it.
//!
//! The *shape* is what the layout of the state depends on. It is part of the key: limits with another
//! shape start with a fresh state under another key, and limits that differ in their quotas only go on
//! with the state that is there.
//!
//! A bucket with room for reservations is kept like any other: the store does not count what is reserved,
//! and gives back what was not spent only where it can tell it apart (see [`end`](crate::exact)).

mod describing;

use std::time::Duration;

use bytes::Bytes;
use sluicegate_engine::{Limit, LimitError};
use thiserror::Error;

use describing::{Describing, HIGHEST, micros_covering, short_form};

/// Why limits cannot be kept in a store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum PrepareError {
    /// A number the scripts cannot count to.
    #[error("`{limit}` cannot be kept in the store: its {what} is too large; lower it, or keep the rule in memory")]
    TooLarge {
        /// The limit.
        limit: Limit,
        /// Which of its numbers.
        what: &'static str,
    },
    /// An algorithm the scripts do not have.
    #[error("`{limit}` cannot be kept in the store, which does not know its algorithm; keep the rule in memory")]
    Unknown {
        /// The limit.
        limit: Limit,
    },
    /// There must be at least one limit, and not more than one key can have.
    #[error(transparent)]
    Limits(#[from] LimitError),
}

/// A rule's limits, prepared once.
#[derive(Debug)]
pub(crate) struct PreparedLimits {
    limits: Box<[Limit]>,
    shape: String,
    described: Bytes,
    /// The short description of a sole token bucket.
    bucket: Option<Bytes>,
    /// What the names of second keys end in.
    seconds: Box<[String]>,
    permits: bool,
    only_permits: bool,
    permit_life: u64,
}

impl PreparedLimits {
    /// These limits, whose permits live for `permit_life` unless they are renewed.
    pub(crate) fn new(limits: &[Limit], permit_life: Duration) -> Result<Self, PrepareError> {
        // Says what is wrong with none or too many.
        sluicegate_engine::Limiter::builder().limits(limits.to_vec()).build()?;
        let permit_life = micros_covering(permit_life).clamp(1, HIGHEST);
        let mut describing = Describing { permit_life, ..Describing::default() };
        for (index, limit) in limits.iter().enumerate() {
            if index > 0 {
                describing.shape.push('+');
            }
            describing.describe(index, limit)?;
        }
        let permits = limits.iter().any(Limit::is_concurrency);
        let only_permits = limits.iter().all(Limit::is_concurrency);
        let counts = [0, limits.len() as u8, describing.seconds.len() as u8, u8::from(only_permits)];
        Ok(Self {
            limits: limits.into(),
            shape: describing.shape,
            described: [counts.as_slice(), &describing.bytes].concat().into(),
            bucket: short_form(limits),
            seconds: describing.seconds.into(),
            permits,
            only_permits,
            permit_life,
        })
    }

    /// What the layout of the state depends on, for the [key](crate::keys::StoreKey::new).
    pub(crate) fn shape(&self) -> &str {
        &self.shape
    }

    /// Whether whoever takes from them holds permits.
    pub(crate) const fn has_permits(&self) -> bool {
        self.permits
    }

    /// How long permits live unless they are renewed, in microseconds.
    pub(crate) const fn permit_life(&self) -> u64 {
        self.permit_life
    }

    /// How many permits a cost takes. Requests are counted one by one where they are in flight, whatever
    /// else they cost.
    pub(crate) fn permits_of(&self, cost: u64) -> u64 {
        if self.only_permits { cost } else { cost.min(1) }
    }

    /// The most that can be had of a limit at once, as a status tells it.
    pub(crate) fn most(&self, limit: usize) -> Option<u64> {
        self.limits.get(limit).map(|limit| match limit {
            Limit::WarmUp(_) => 1,
            other => other.capacity(),
        })
    }

    /// The description that serves any script.
    pub(crate) fn described(&self) -> &Bytes {
        &self.described
    }

    /// The short description of a sole token bucket, for asks of one unit.
    pub(crate) const fn bucket(&self) -> Option<&Bytes> {
        self.bucket.as_ref()
    }

    /// What the names of second keys end in.
    pub(crate) fn seconds(&self) -> &[String] {
        &self.seconds
    }

    /// What the name of the key with the permits ends in.
    pub(crate) const fn permits_suffix() -> &'static str {
        "permits"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use sluicegate_engine::Rate;
    use sluicegate_engine::algorithm::Alignment;

    use super::*;

    fn shape(limits: &[Limit]) -> String {
        PreparedLimits::new(limits, Duration::from_secs(1)).unwrap().shape().to_owned()
    }

    #[test]
    fn the_shape_tells_layouts_apart_and_not_quotas() {
        let minute = Duration::from_secs(60);
        let rate = |count| Rate::per_second(count).unwrap();
        let bucket = |count, burst| Limit::token_bucket(rate(count), burst).unwrap();
        assert_eq!(shape(&[bucket(1, 5)]), "tb");
        assert_eq!(shape(&[bucket(1, 5)]), shape(&[Limit::bandwidth(rate(77), 1 << 20).unwrap()]));
        assert_eq!(shape(&["300/1m".parse().unwrap()]), "sw10x6000000");
        assert_eq!(shape(&["300/1m".parse().unwrap()]), shape(&["70000/1m".parse().unwrap()]));
        assert_ne!(shape(&["300/1m".parse().unwrap()]), shape(&["300/1h".parse().unwrap()]));
        let limits = [
            Limit::leaky_bucket(rate(1), 5).unwrap(),
            Limit::fixed_window(5, minute, Alignment::Epoch).unwrap(),
            Limit::fixed_window(5, minute, Alignment::FirstUse).unwrap(),
            Limit::sliding_window(1 << 40, minute, 7).unwrap(),
            Limit::interpolated_window(5, minute).unwrap(),
            Limit::sliding_log(5, minute).unwrap(),
            Limit::concurrency(5).unwrap(),
            Limit::warm_up(rate(5), minute, 3).unwrap(),
        ];
        assert_eq!(shape(&limits), "lb+fw60000000+fu60000000+sw7x8571429w+iw60000000+sl5+cc+wu");
    }

    #[test]
    fn what_the_scripts_cannot_count_to_is_refused() {
        let refused = |limit| PreparedLimits::new(&[limit], Duration::from_secs(1)).unwrap_err().to_string();
        let minute = Duration::from_secs(60);
        for limit in [
            Limit::fixed_window(1 << 53, minute, Alignment::Epoch).unwrap(),
            Limit::sliding_window(u64::MAX, minute, 10).unwrap(),
            Limit::interpolated_window(1 << 60, minute).unwrap(),
            Limit::concurrency(u64::MAX).unwrap(),
        ] {
            let text = refused(limit);
            assert!(text.contains("its limit is too large; lower it"), "{text}");
        }
        let warm_up = Limit::warm_up(Rate::per_second(1).unwrap(), Duration::from_secs(86_400 * 365), 3).unwrap();
        assert!(refused(warm_up).contains("its time to warm up is too large"));
        let burst = Limit::token_bucket(Rate::per_second(700_000).unwrap(), 50_000_000_000_000).unwrap();
        assert!(refused(burst).contains("its burst is too large"));
        assert_eq!(PreparedLimits::new(&[], minute).unwrap_err(), LimitError::NoLimits.into());
    }
}
