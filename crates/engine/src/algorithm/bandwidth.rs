//! Bandwidth: a token bucket of bytes that paces responses and refuses nothing.
//!
//! **Guarantee.** That of a [token bucket](super::token_bucket): in any span T at most `burst + rate × T` bytes.
//!
//! **State.** That of a token bucket.

use std::ops::Deref;
use std::time::Duration;

use super::description::{
    Describe, Description, Imprecision, LeaseForm, LimitArguments, LimitUnit, NodeShare, Pacing, Parameter,
    ParameterKind, Share,
};
use super::gcra::Gcra;
use super::store_form::{StoreForm, StoreFormError};
use super::token_bucket::TokenBucket;
use crate::quota::{LimitError, Rate};

/// Bandwidth limit. See the [module documentation](self). Decides as the token bucket that it dereferences to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth(TokenBucket);

impl Bandwidth {
    /// `rate` in bytes, with a burst of `burst` bytes.
    pub fn new(rate: Rate, burst: u64) -> Result<Self, LimitError> {
        TokenBucket::new(rate, burst).map(Self)
    }
}

impl Deref for Bandwidth {
    type Target = TokenBucket;

    #[inline]
    fn deref(&self) -> &TokenBucket {
        &self.0
    }
}

impl Describe for Bandwidth {
    const DESCRIPTION: &'static Description = &Description {
        name: "bandwidth",
        title: "a bandwidth limit",
        doc: "Paces the response bytes of each key and refuses nothing. The rule cannot have other kinds of limits.",
        code: 8,
        unit: LimitUnit::Bytes,
        pacing: Pacing::Paced,
        refundable: true,
        reservable: true,
        parameters: &[
            Parameter {
                name: "bandwidth",
                doc: "Bytes per time.",
                kind: ParameterKind::ByteRate,
                default: None,
                example: "2MiB/s",
                notation: " {}",
            },
            Parameter {
                name: "burst",
                doc: "Bytes that pass at full speed first.",
                kind: ParameterKind::Size,
                default: Some("the bytes of one second"),
                example: "8MiB",
                notation: ", burst {}",
            },
        ],
    };

    fn from_arguments(arguments: &LimitArguments) -> Result<Self, LimitError> {
        let rate = arguments.rate()?;
        Self::new(rate, arguments.count(1).unwrap_or_else(|| bytes_per_second(rate)))
    }

    fn arguments(&self) -> LimitArguments {
        self.0.arguments()
    }

    fn capacity(&self) -> u64 {
        self.0.capacity()
    }

    fn window(&self) -> Option<Duration> {
        self.0.window()
    }

    fn share(&self, nodes: NodeShare) -> Result<Share<Self>, LimitError> {
        Self::new(nodes.rate(self.rate())?, nodes.part(self.burst())).map(Share::Limit)
    }

    fn store_form(&self) -> Result<StoreForm, StoreFormError> {
        self.0.store_form()
    }

    fn lease_form(&self) -> Option<LeaseForm> {
        self.0.lease_form()
    }

    fn token_bucket(&self) -> Option<&Gcra> {
        self.0.token_bucket()
    }

    fn with_reservations(self) -> Self {
        Self(self.0.reservable())
    }

    fn implies(&self, other: &Self) -> bool {
        self.0.implies(&other.0)
    }

    fn imprecision(&self) -> Option<Imprecision> {
        self.0.rate_imprecision()
    }
}

/// Bytes per second of a rate, at least one.
fn bytes_per_second(rate: Rate) -> u64 {
    let period = rate.period().as_nanos().max(1);
    let bytes = u128::from(rate.count()) * Duration::from_secs(1).as_nanos() / period;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_burst_is_one_second() {
        let per = |count, period| Rate::new(count, Duration::from_secs(period)).unwrap();
        assert_eq!(bytes_per_second(per(2 << 20, 1)), 2 << 20);
        assert_eq!(bytes_per_second(per(600, 60)), 10);
        assert_eq!(bytes_per_second(per(1, 60)), 1);
    }
}
