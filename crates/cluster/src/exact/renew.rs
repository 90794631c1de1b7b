//! Renewing permits: whoever holds them says so from time to time, and the store forgets those who do not.

use std::sync::Arc;

use redis::Value;

use super::arguments::moment;
use super::reply::{Malformed, Numbers};
use super::scripts::RENEW;
use crate::ask::PermitId;
use crate::invocation::Invocation;
use crate::keys::StoreKey;
use crate::prepared::PreparedLimits;

/// Permits to be kept for another lifetime.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) key: StoreKey,
    pub(crate) limits: Arc<PreparedLimits>,
    /// The cost they were taken for.
    pub(crate) taken: u64,
    pub(crate) permit: PermitId,
}

/// The call that renews these permits, each from the store's moment on.
pub(crate) fn encode_renew(renewals: &[Renewal], now: Option<u64>) -> Invocation {
    let mut holders = Vec::new();
    let mut keys = Vec::with_capacity(renewals.len());
    for (renewal, place) in renewals.iter().zip(1u32..) {
        keys.push(renewal.key.second(PreparedLimits::permits_suffix()));
        holders.extend(place.to_le_bytes());
        holders.extend(&renewal.limits.permit_life().to_le_bytes()[..7]);
        holders.extend(renewal.permit.0.to_le_bytes());
        holders.extend(&renewal.limits.permits_of(renewal.taken).to_le_bytes()[..7]);
    }
    Invocation { script: &RENEW, keys, arguments: vec![moment(now), holders.into()] }
}

/// Of each whether it was still there. Those that were not have lost their permits.
pub(crate) fn decode_renew(value: Value, renewals: &[Renewal]) -> Result<Vec<bool>, Malformed> {
    let mut numbers = Numbers::of(value)?;
    numbers.next()?;
    let renewed = renewals.iter().map(|_| numbers.flag()).collect::<Result<_, _>>()?;
    numbers.end()?;
    Ok(renewed)
}
