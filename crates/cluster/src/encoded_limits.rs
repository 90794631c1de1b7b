//! A rule's limits, encoded for the Lua scripts.
//!
//! The scripts count in whole microseconds of the store's clock and in numbers that are exact up to 2^53.
//! Encoding restates each limit in these units, always rounding to the strict side: windows and cells of
//! fractional microseconds are rounded up. Limits that do not fit into such numbers are refused here, so
//! the scripts never see them.
//!
//! The *shape* determines the layout of the state. It is part of the key: limits with another
//! shape start with a fresh state under another key; limits that differ only in their quotas reuse
//! the existing state.
//!
//! A bucket with room for reservations is stored like any other: the store does not count reservations,
//! and returns unspent tokens only if it can attribute them (see [`release`](crate::exact)).

mod encode;

use std::time::Duration;

use bytes::Bytes;
use sluicegate_engine::algorithm::store_form::{MAX_NUMBER, ceil_micros};
use sluicegate_engine::{Limit, LimitError};
use thiserror::Error;

use encode::{LimitEncoder, encode_short_bucket};

/// Reason why limits cannot be kept in a store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum EncodeLimitsError {
    /// A number beyond the scripts' precision.
    #[error(
        "`{limit}` cannot be stored in the shared store: its {field} is too large; lower it, or count the rule \
        locally"
    )]
    TooLarge {
        /// The limit.
        limit: Limit,
        /// The number that is too large.
        field: &'static str,
    },
    /// No limits, or more than one key can have.
    #[error(transparent)]
    Limits(#[from] LimitError),
}

/// A rule's limits, encoded once.
#[derive(Debug)]
pub(crate) struct EncodedLimits {
    limits: Box<[Limit]>,
    shape: String,
    encoded: Bytes,
    /// The short form of a single token bucket.
    short_bucket: Option<Bytes>,
    /// Suffixes of the secondary keys.
    secondary_suffixes: Box<[String]>,
    has_permits: bool,
    has_only_permits: bool,
    permit_ttl: u64,
}

impl EncodedLimits {
    /// Encodes these limits; permits expire after `permit_ttl` unless renewed.
    pub(crate) fn new(limits: &[Limit], permit_ttl: Duration) -> Result<Self, EncodeLimitsError> {
        // Reports an error for no limits or too many.
        sluicegate_engine::Limiter::builder().limits(limits.to_vec()).build()?;
        let permit_ttl = ceil_micros(permit_ttl).clamp(1, MAX_NUMBER);
        let mut encoder = LimitEncoder { permit_ttl, ..LimitEncoder::default() };
        for (index, limit) in limits.iter().enumerate() {
            if index > 0 {
                encoder.shape.push('+');
            }
            encoder.encode(index, limit)?;
        }
        let permits = limits.iter().any(Limit::is_concurrency);
        let only_permits = limits.iter().all(Limit::is_concurrency);
        let counts = [0, limits.len() as u8, encoder.secondary_suffixes.len() as u8, u8::from(only_permits)];
        Ok(Self {
            limits: limits.into(),
            shape: encoder.shape,
            encoded: [counts.as_slice(), &encoder.bytes].concat().into(),
            short_bucket: encode_short_bucket(limits),
            secondary_suffixes: encoder.secondary_suffixes.into(),
            has_permits: permits,
            has_only_permits: only_permits,
            permit_ttl,
        })
    }

    /// Determines the layout of the state; part of the [key](crate::keys::StoreKey::new).
    pub(crate) fn shape(&self) -> &str {
        &self.shape
    }

    /// True if a request holds permits of these limits.
    pub(crate) const fn has_permits(&self) -> bool {
        self.has_permits
    }

    /// Time to live of permits without renewal, in microseconds.
    pub(crate) const fn permit_ttl(&self) -> u64 {
        self.permit_ttl
    }

    /// Number of permits a cost takes. Combined with rate limits, a request holds one permit regardless of its
    /// cost.
    pub(crate) fn permits_for(&self, cost: u64) -> u64 {
        if self.has_only_permits { cost } else { cost.min(1) }
    }

    /// Capacity of a limit, as reported in a status.
    pub(crate) fn capacity(&self, limit: usize) -> Option<u64> {
        self.limits.get(limit).map(Limit::status_limit)
    }

    /// The general form, for any script.
    pub(crate) fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// The short form of a single token bucket, for decisions with one check.
    pub(crate) const fn short_bucket(&self) -> Option<&Bytes> {
        self.short_bucket.as_ref()
    }

    /// Suffixes of the secondary keys.
    pub(crate) fn secondary_suffixes(&self) -> &[String] {
        &self.secondary_suffixes
    }

    /// Suffix of the key with the permits.
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
        EncodedLimits::new(limits, Duration::from_secs(1)).unwrap().shape().to_owned()
    }

    #[test]
    fn the_shape_depends_on_the_layout_and_not_on_quotas() {
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
    fn limits_beyond_script_precision_are_refused() {
        let refused = |limit| EncodedLimits::new(&[limit], Duration::from_secs(1)).unwrap_err().to_string();
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
        assert!(refused(warm_up).contains("its warm-up time is too large"));
        let burst = Limit::token_bucket(Rate::per_second(700_000).unwrap(), 50_000_000_000_000).unwrap();
        assert!(refused(burst).contains("its burst is too large"));
        assert_eq!(EncodedLimits::new(&[], minute).unwrap_err(), LimitError::NoLimits.into());
    }
}
