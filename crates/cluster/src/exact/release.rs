//! Release: settles acquired quota to the actual cost, and releases permits.
//!
//! The store does not record the share of each caller, so it returns only what it can attribute by the
//! acquisition time: tokens if no request came since, a count in a window or cell that is still current, the
//! log entries of that time. It never leaves more than if the actual cost had been taken in the first place.
//!
//! A refund without a time was another request's quota. It is subtracted from the current usage, oldest
//! first, like the engine's `Algorithm::refund`.

use std::sync::Arc;

use redis::Value;

use super::arguments::{CheckPosition, ScriptArguments};
use super::reply::{MalformedReply, ReplyReader};
use super::scripts::RELEASE;
use crate::decision::PermitId;
use crate::encoded_limits::EncodedLimits;
use crate::invocation::Invocation;
use crate::keys::StoreKey;

/// One acquired check, and its actual cost.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) key: StoreKey,
    pub(crate) limits: Arc<EncodedLimits>,
    /// The cost that was taken.
    pub(crate) taken: u64,
    /// Acquisition time, from [`KeyDecision`](crate::decision::KeyDecision); 0 for a refund of unknown time.
    pub(crate) at: u64,
    /// The actual cost; zero returns everything. Permits are released in any case.
    pub(crate) actual: u64,
    pub(crate) permit: Option<PermitId>,
}

/// Encodes the call that releases these checks.
pub(crate) fn encode_release(releases: &[Release], now: Option<u64>) -> Invocation {
    let mut arguments = ScriptArguments::default();
    for release in releases {
        let numbers = [release.taken, release.at, release.actual];
        arguments.add_check(&release.key, &release.limits, CheckPosition::Last, &numbers, release.permit);
    }
    arguments.into_invocation(&RELEASE, now)
}

/// Decodes the reply: per check, true if its permits still existed; and the number of foreign values replaced.
pub(crate) fn decode_release(value: Value, releases: &[Release]) -> Result<(Vec<bool>, u64), MalformedReply> {
    let mut numbers = ReplyReader::new(value)?;
    let (_, replaced) = (numbers.next()?, numbers.next()?);
    let released = releases.iter().map(|_| numbers.next_flag()).collect::<Result<_, _>>()?;
    numbers.finish()?;
    Ok((released, replaced))
}
