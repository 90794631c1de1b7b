//! `CL.THROTTLE` and `THROTTLE`: limits whose numbers come with the command.
//!
//! Both take `key max_burst count period [quantity]` and decide alike, but the first counts one token beyond
//! `max_burst`, as redis-cell does, and the second does not, as throttlecrab does. They answer five integers:
//!
//! | | `CL.THROTTLE` | `THROTTLE` |
//! |---|---|---|
//! | 1 | 1 if limited | 1 if allowed |
//! | 2 | `max_burst` + 1 | `max_burst` |
//! | 3 | remaining | remaining |
//! | 4 | seconds to retry after, -1 if allowed or never | seconds to reset, as throttlecrab counts them |
//! | 5 | seconds until the bucket is full | seconds to retry after, 0 if allowed |
//!
//! redis-cell rounds seconds up, leaving out what is less than a millisecond; throttlecrab rounds them down. A
//! quantity of zero looks. A negative one gives tokens back to redis-cell, and is an error of throttlecrab.

use std::time::Duration;

use sluicegate_engine::LimitError;
use sluicegate_engine::adhoc::{AdHocError, Deed, Throttled, Throttling};

use super::command::{Call, Step};
use super::reply::{Replies, Shown};

const USAGE: &str =
    "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
const NEGATIVE: &str =
    "Cell error: Store error: Negative rates are not supported: max_burst, count and period must be 0 or more";

/// `CL.THROTTLE key max_burst count period [quantity]`
pub(super) fn cl_throttle(call: &mut Call<'_>) -> Step {
    let command = call.command;
    if !matches!(command.len(), 5 | 6) {
        return call.error(USAGE);
    }
    let mut numbers = [0, 0, 0, 1];
    for (number, index) in numbers.iter_mut().zip(2..command.len()) {
        let Some(read) = integer(command.word(index)) else {
            let word = Shown(command.word(index));
            return call.error(format_args!("Cell error: Store error: Couldn't parse as integer: {word}"));
        };
        *number = read;
    }
    let [max_burst, count, period, quantity] = numbers;
    let (Ok(max_burst), Ok(count), Ok(period)) =
        (u64::try_from(max_burst), u64::try_from(count), u64::try_from(period))
    else {
        return call.error(NEGATIVE);
    };
    let amount = quantity.unsigned_abs();
    let deed = if quantity < 0 { Deed::GiveBack(amount) } else { Deed::Take(amount) };
    decide(call, Asked { max_burst, count, period: Duration::from_secs(period), deed, manner: Manner::Cell })
}

/// `THROTTLE key max_burst count period [quantity]`
pub(super) fn throttle(call: &mut Call<'_>) -> Step {
    let command = call.command;
    if command.len() > 6 {
        return call.wrong_number("throttle");
    }
    let mut numbers = [0, 0, 0, 1];
    let names = ["max_burst", "count_per_period", "period", "quantity"];
    for ((number, name), index) in numbers.iter_mut().zip(names).zip(2..command.len()) {
        let Some(read) = integer(command.word(index)) else {
            return call.error(format_args!("ERR invalid {name}"));
        };
        *number = read;
    }
    let [max_burst, count, period, quantity] = numbers;
    let Ok(quantity) = u64::try_from(quantity) else {
        return call.error(format_args!("ERR Rate limit check failed: negative quantity: {quantity}"));
    };
    if max_burst <= 0 || count <= 0 || period <= 0 {
        return call.error("ERR Rate limit check failed: invalid rate limit parameters");
    }
    let [max_burst, count, period] = [max_burst, count, period].map(i64::unsigned_abs);
    let (max_burst, period, deed) = (max_burst - 1, Duration::from_secs(period), Deed::Take(quantity));
    decide(call, Asked { max_burst, count, period, deed, manner: Manner::Crab })
}

/// What a command asks for.
#[derive(Clone, Copy)]
struct Asked {
    max_burst: u64,
    count: u64,
    period: Duration,
    deed: Deed,
    manner: Manner,
}

/// Whose manner of answering it is.
#[derive(Clone, Copy)]
enum Manner {
    Cell,
    Crab,
}

/// Asks this process, or the store if that counts.
#[inline]
fn decide(call: &mut Call<'_>, asked: Asked) -> Step {
    let Asked { max_burst, count, period, deed, .. } = asked;
    let (key, adhoc) = (call.command.word(1), &call.resp.adhoc);
    let said = if adhoc.is_shared() {
        match adhoc.ask_bucket(key, max_burst, count, period, deed) {
            Ok(throttling) => return Step::Throttle(Box::new(Waiting { throttling, asked })),
            Err(error) => Err(error),
        }
    } else {
        match deed {
            Deed::Take(quantity) => adhoc.bucket(key, max_burst, count, period, quantity),
            Deed::GiveBack(quantity) => adhoc.give_back_to_bucket(key, max_burst, count, period, quantity),
        }
    };
    asked.render(said, call.replies);
    Step::Done
}

/// A command whose answer the store has.
pub(super) struct Waiting {
    throttling: Throttling,
    asked: Asked,
}

impl Waiting {
    pub(super) async fn answer(self, replies: &mut Replies) {
        let said = self.throttling.await;
        self.asked.render(said, replies);
    }
}

impl Asked {
    #[inline]
    fn render(self, said: Result<Throttled, AdHocError>, replies: &mut Replies) {
        let numbers = match (self.manner, said) {
            (Manner::Cell, Ok(said)) => {
                let retry = said.retry_after.map_or(-1, seconds_as_redis_cell);
                let reset = seconds_as_redis_cell(said.reset_after);
                [said.limited.into(), whole(said.limit), whole(said.remaining), retry, reset]
            }
            (Manner::Crab, Ok(said)) => {
                let quantity = if let Deed::Take(quantity) = self.deed { quantity } else { 0 };
                let (reset, retry) = seconds_as_throttlecrab(&said, self.count, self.period, quantity);
                [(!said.limited).into(), whole(said.limit), whole(said.remaining), reset, retry]
            }
            // Rates beyond one in a nanosecond are what redis-cell calls zero.
            (Manner::Cell, Err(AdHocError::ZeroRate | AdHocError::Limit(LimitError::RateTooHigh { .. }))) => {
                return replies.error("Cell error: Store error: Zero rates are not supported");
            }
            (Manner::Cell, Err(error)) => return replies.error(format_args!("Cell error: Store error: {error}")),
            (Manner::Crab, Err(error)) => {
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

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Rounded up, but for what is less than a millisecond.
fn seconds_as_redis_cell(span: Duration) -> i64 {
    whole(span.as_secs()) + i64::from(span.subsec_millis() > 0)
}

/// Until the reset and until the next try, rounded down.
///
/// What throttlecrab calls the reset lies two tokens less than a whole bucket behind the moment at which the bucket
/// is full: then it forgets the key. And it tells a time to retry even to those who never fit.
fn seconds_as_throttlecrab(said: &Throttled, count: u64, period: Duration, quantity: u64) -> (i64, i64) {
    let nanos = |span: Duration| i128::try_from(span.as_nanos()).unwrap_or(i128::MAX);
    let token = nanos(period) / i128::from(count.max(1));
    let seconds = |nanos: i128| i64::try_from(nanos.max(0) / 1_000_000_000).unwrap_or(i64::MAX);
    let reset = nanos(said.reset_after) + (i128::from(said.limit) - 2) * token;
    let retry = match (said.limited, said.retry_after) {
        (false, _) => 0,
        (true, Some(wait)) => nanos(wait),
        (true, None) => {
            let beyond = i128::from(quantity) - i128::from(said.limit);
            nanos(said.reset_after).saturating_add(beyond.saturating_mul(token))
        }
    };
    (seconds(reset), seconds(retry))
}
