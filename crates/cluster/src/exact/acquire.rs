//! Acquire: decides requests in the store.

use redis::Value;
use sluicegate_engine::algorithm::{Check, Status};

use super::arguments::{CheckPosition, ScriptArguments};
use super::reply::{MalformedReply, ReplyReader};
use super::scripts::ACQUIRE;
use crate::decision::{DecisionRequest, KeyCheck, KeyDecision, KeyDecisions};
use crate::invocation::Invocation;

/// Encodes the call that decides these requests, in order.
///
/// `now`, in microseconds since the engine's epoch, replaces the store's clock.
pub(crate) fn encode_acquire(requests: &[DecisionRequest], now: Option<u64>) -> Invocation {
    let mut arguments = ScriptArguments::default();
    for request in requests {
        for (index, check) in request.checks.iter().enumerate() {
            let position = match (index + 1 == request.checks.len(), index) {
                (true, 0) => CheckPosition::Only,
                (true, _) => CheckPosition::Last,
                (false, _) => CheckPosition::NotLast,
            };
            arguments.add_check(&check.key, &check.limits, position, &[check.cost], check.permit);
        }
    }
    arguments.into_invocation(&ACQUIRE, now)
}

/// Decodes the decisions on these requests, and the number of foreign values replaced at our keys.
pub(crate) fn decode_acquire(
    value: Value,
    requests: &[DecisionRequest],
) -> Result<(Vec<KeyDecisions>, u64), MalformedReply> {
    let mut numbers = ReplyReader::new(value)?;
    let (at, replaced) = (numbers.next()?, numbers.next()?);
    let decisions = requests
        .iter()
        .map(|request| request.checks.iter().map(|check| decode_check(&mut numbers, check, at)).collect());
    let decisions = decisions.collect::<Result<Vec<KeyDecisions>, MalformedReply>>()?;
    numbers.finish()?;
    Ok((decisions, replaced))
}

fn decode_check(numbers: &mut ReplyReader, key_check: &KeyCheck, at: u64) -> Result<KeyDecision, MalformedReply> {
    let code = numbers.next()?;
    let (remaining, reset) = (numbers.next()?, numbers.next()?);
    let check = match code % 8 {
        0 => Check::Now,
        1 => Check::After(numbers.next()?),
        2 => Check::NotBefore(numbers.next()?),
        3 => Check::Held,
        4 => Check::Never,
        _ => return Err(MalformedReply),
    };
    let limit = usize::try_from(code / 8).map_err(|_| MalformedReply)?;
    let max = key_check.limits.capacity(limit).ok_or(MalformedReply)?;
    Ok(KeyDecision { check, limit, status: Status { limit: max, remaining, reset }, at })
}
