//! Permit renewal: permits that are not renewed in time expire in the store.

use std::sync::Arc;

use redis::Value;

use super::arguments::timestamp_argument;
use super::reply::{MalformedReply, ReplyReader};
use super::scripts::RENEW;
use crate::decision::PermitId;
use crate::encoded_limits::EncodedLimits;
use crate::invocation::Invocation;
use crate::keys::StoreKey;

/// Permits to be renewed for another time to live.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) key: StoreKey,
    pub(crate) limits: Arc<EncodedLimits>,
    /// The cost the permits were taken for.
    pub(crate) taken: u64,
    pub(crate) permit: PermitId,
}

/// Encodes the call that renews these permits, starting at the store's time.
pub(crate) fn encode_renew(renewals: &[Renewal], now: Option<u64>) -> Invocation {
    let mut holders = Vec::new();
    let mut keys = Vec::with_capacity(renewals.len());
    for (renewal, index) in renewals.iter().zip(1u32..) {
        keys.push(renewal.key.secondary(EncodedLimits::permits_suffix()));
        holders.extend(index.to_le_bytes());
        holders.extend(&renewal.limits.permit_ttl().to_le_bytes()[..7]);
        holders.extend(renewal.permit.0.to_le_bytes());
        holders.extend(&renewal.limits.permits_for(renewal.taken).to_le_bytes()[..7]);
    }
    Invocation { script: &RENEW, keys, arguments: vec![timestamp_argument(now), holders.into()] }
}

/// Decodes the reply: for each renewal true if the permit still existed. The others have lost their permits.
pub(crate) fn decode_renew(value: Value, renewals: &[Renewal]) -> Result<Vec<bool>, MalformedReply> {
    let mut numbers = ReplyReader::new(value)?;
    numbers.next()?;
    let renewed = renewals.iter().map(|_| numbers.next_flag()).collect::<Result<_, _>>()?;
    numbers.finish()?;
    Ok(renewed)
}
