//! `CL.THROTTLE` and `THROTTLE`: limits given in the command.
//!
//! Both take `key max_burst count period [quantity]` and decide alike, but the first allows one token more than
//! `max_burst`, as redis-cell does, and the second does not, as throttlecrab does. They reply with five integers:
//!
//! | | `CL.THROTTLE` | `THROTTLE` |
//! |---|---|---|
//! | 1 | 1 if limited | 1 if allowed |
//! | 2 | `max_burst` + 1 | `max_burst` |
//! | 3 | remaining | remaining |
//! | 4 | seconds to retry after, -1 if allowed or never | seconds to reset, as throttlecrab counts them |
//! | 5 | seconds until the bucket is full | seconds to retry after, 0 if allowed |
//!
//! redis-cell rounds seconds up, ignoring fractions of a millisecond; throttlecrab rounds them down. A quantity
//! of zero peeks. A negative quantity gives tokens back with redis-cell, and is an error with throttlecrab.

use std::time::Duration;

use sluicegate_engine::LimitError;
use sluicegate_engine::adhoc::{AdHocError, Operation, ThrottleFuture, ThrottleResult};

use super::command::{CommandContext, CommandResult};
use super::reply::{InputExcerpt, ReplyBuffer};

const USAGE: &str =
    "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
const NEGATIVE: &str =
    "Cell error: Store error: Negative rates are not supported: max_burst, count and period must be 0 or more";

/// `CL.THROTTLE key max_burst count period [quantity]`
pub(super) fn cl_throttle(call: &mut CommandContext<'_>) -> CommandResult {
    let command = call.command;
    if !matches!(command.len(), 5 | 6) {
        return call.error(USAGE);
    }
    let mut numbers = [0, 0, 0, 1];
    for (number, index) in numbers.iter_mut().zip(2..command.len()) {
        let Some(value) = integer(command.word(index)) else {
            let word = InputExcerpt(command.word(index));
            return call.error(format_args!("Cell error: Store error: Couldn't parse as integer: {word}"));
        };
        *number = value;
    }
    let [max_burst, count, period, quantity] = numbers;
    let (Ok(max_burst), Ok(count), Ok(period)) =
        (u64::try_from(max_burst), u64::try_from(count), u64::try_from(period))
    else {
        return call.error(NEGATIVE);
    };
    let amount = quantity.unsigned_abs();
    let operation = if quantity < 0 { Operation::GiveBack(amount) } else { Operation::Take(amount) };
    decide(
        call,
        ThrottleArgs { max_burst, count, period: Duration::from_secs(period), operation, dialect: Dialect::RedisCell },
    )
}

/// `THROTTLE key max_burst count period [quantity]`
pub(super) fn throttle(call: &mut CommandContext<'_>) -> CommandResult {
    let command = call.command;
    if command.len() > 6 {
        return call.wrong_arity("throttle");
    }
    let mut numbers = [0, 0, 0, 1];
    let names = ["max_burst", "count_per_period", "period", "quantity"];
    for ((number, name), index) in numbers.iter_mut().zip(names).zip(2..command.len()) {
        let Some(value) = integer(command.word(index)) else {
            return call.error(format_args!("ERR invalid {name}"));
        };
        *number = value;
    }
    let [max_burst, count, period, quantity] = numbers;
    let Ok(quantity) = u64::try_from(quantity) else {
        return call.error(format_args!("ERR Rate limit check failed: negative quantity: {quantity}"));
    };
    if max_burst <= 0 || count <= 0 || period <= 0 {
        return call.error("ERR Rate limit check failed: invalid rate limit parameters");
    }
    let [max_burst, count, period] = [max_burst, count, period].map(i64::unsigned_abs);
    let (max_burst, period, operation) = (max_burst - 1, Duration::from_secs(period), Operation::Take(quantity));
    decide(call, ThrottleArgs { max_burst, count, period, operation, dialect: Dialect::Throttlecrab })
}

/// The parsed arguments of a throttle command.
#[derive(Clone, Copy)]
struct ThrottleArgs {
    max_burst: u64,
    count: u64,
    period: Duration,
    operation: Operation,
    dialect: Dialect,
}

/// The reply dialect.
#[derive(Clone, Copy)]
enum Dialect {
    RedisCell,
    Throttlecrab,
}

/// Decides locally, or starts a store call if a store counts.
#[inline]
fn decide(call: &mut CommandContext<'_>, args: ThrottleArgs) -> CommandResult {
    let ThrottleArgs { max_burst, count, period, operation, .. } = args;
    let (key, adhoc) = (call.command.word(1), &call.resp.adhoc);
    let result = if adhoc.is_shared() {
        match adhoc.bucket_async(key, max_burst, count, period, operation) {
            Ok(future) => {
                return CommandResult::PendingThrottle(Box::new(PendingThrottle { future, args }));
            }
            Err(error) => Err(error),
        }
    } else {
        match operation {
            Operation::Take(quantity) => adhoc.bucket(key, max_burst, count, period, quantity),
            Operation::GiveBack(quantity) => adhoc.give_back_to_bucket(key, max_burst, count, period, quantity),
        }
    };
    args.render(result, call.replies);
    CommandResult::Done
}

/// A throttle command that waits for the store.
pub(super) struct PendingThrottle {
    future: ThrottleFuture,
    args: ThrottleArgs,
}

impl PendingThrottle {
    pub(super) async fn finish(self, replies: &mut ReplyBuffer) {
        let result = self.future.await;
        self.args.render(result, replies);
    }
}

impl ThrottleArgs {
    #[inline]
    fn render(self, result: Result<ThrottleResult, AdHocError>, replies: &mut ReplyBuffer) {
        let numbers = match (self.dialect, result) {
            (Dialect::RedisCell, Ok(result)) => {
                let retry = result.retry_after.map_or(-1, seconds_as_redis_cell);
                let reset = seconds_as_redis_cell(result.reset_after);
                [result.limited.into(), saturating_i64(result.limit), saturating_i64(result.remaining), retry, reset]
            }
            (Dialect::Throttlecrab, Ok(result)) => {
                let quantity = if let Operation::Take(quantity) = self.operation { quantity } else { 0 };
                let (reset, retry) = seconds_as_throttlecrab(&result, self.count, self.period, quantity);
                [(!result.limited).into(), saturating_i64(result.limit), saturating_i64(result.remaining), reset, retry]
            }
            // redis-cell reports rates above one per nanosecond as zero.
            (Dialect::RedisCell, Err(AdHocError::ZeroRate | AdHocError::Limit(LimitError::RateTooHigh { .. }))) => {
                return replies.error("Cell error: Store error: Zero rates are not supported");
            }
            (Dialect::RedisCell, Err(error)) => return replies.error(format_args!("Cell error: Store error: {error}")),
            (Dialect::Throttlecrab, Err(error)) => {
                return replies.error(format_args!("ERR Rate limit check failed: {error}"));
            }
        };
        replies.array(5);
        numbers.into_iter().for_each(|number| replies.integer(number));
    }
}

#[inline]
fn integer(word: &[u8]) -> Option<i64> {
    str::from_utf8(word).ok()?.parse().ok()
}

fn saturating_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Seconds, rounded up after fractions of a millisecond are dropped.
fn seconds_as_redis_cell(span: Duration) -> i64 {
    saturating_i64(span.as_secs()) + i64::from(span.subsec_millis() > 0)
}

/// Seconds until the reset and until the retry, rounded down.
///
/// The reset of throttlecrab lies a bucket minus two tokens after the time at which the bucket is full: then it
/// drops the key. It reports a retry time even for a quantity that never fits.
fn seconds_as_throttlecrab(result: &ThrottleResult, count: u64, period: Duration, quantity: u64) -> (i64, i64) {
    let nanos = |span: Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
    let token = nanos(period) / i128::from(count.max(1));
    let seconds = |nanos: i128| i64::try_from(nanos.max(0) / 1_000_000_000).unwrap_or(i64::MAX);
    let reset = nanos(result.reset_after) + (i128::from(result.limit) - 2) * token;
    let retry = match (result.limited, result.retry_after) {
        (false, _) => 0,
        (true, Some(wait)) => nanos(wait),
        (true, None) => {
            let excess = i128::from(quantity) - i128::from(result.limit);
            nanos(result.reset_after).saturating_add(excess.saturating_mul(token))
        }
    };
    (seconds(reset), seconds(retry))
}
