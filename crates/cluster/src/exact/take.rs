//! Deciding asks.

use redis::Value;
use sluicegate_engine::algorithm::{Check, Status};

use super::arguments::{Arguments, Standing};
use super::reply::{Malformed, Numbers};
use super::scripts::TAKE;
use crate::ask::{Answer, Ask, Said, Unit};
use crate::invocation::Invocation;

/// The call that decides these asks, in their order.
///
/// `now`, in microseconds since the engine's epoch, stands in for the store's clock.
pub(crate) fn encode_take(asks: &[Ask], now: Option<u64>) -> Invocation {
    let mut arguments = Arguments::default();
    for ask in asks {
        for (nth, unit) in ask.units.iter().enumerate() {
            let standing = match (nth + 1 == ask.units.len(), nth) {
                (true, 0) => Standing::Alone,
                (true, _) => Standing::Last,
                (false, _) => Standing::BeforeOthers,
            };
            arguments.unit(&unit.key, &unit.limits, standing, &[unit.cost], unit.permit);
        }
    }
    arguments.invoke(&TAKE, now)
}

/// What the store said to these asks, and how many foreign values it found at our keys and replaced.
pub(crate) fn decode_take(value: Value, asks: &[Ask]) -> Result<(Vec<Answer>, u64), Malformed> {
    let mut numbers = Numbers::of(value)?;
    let (at, healed) = (numbers.next()?, numbers.next()?);
    let answers = asks.iter().map(|ask| ask.units.iter().map(|unit| said(&mut numbers, unit, at)).collect());
    let answers = answers.collect::<Result<Vec<Answer>, Malformed>>()?;
    numbers.end()?;
    Ok((answers, healed))
}

fn said(numbers: &mut Numbers, unit: &Unit, at: u64) -> Result<Said, Malformed> {
    let code = numbers.next()?;
    let (remaining, reset) = (numbers.next()?, numbers.next()?);
    let check = match code % 8 {
        0 => Check::Now,
        1 => Check::After(numbers.next()?),
        2 => Check::NotBefore(numbers.next()?),
        3 => Check::Held,
        4 => Check::Never,
        _ => return Err(Malformed),
    };
    let limit = usize::try_from(code / 8).map_err(|_| Malformed)?;
    let most = unit.limits.most(limit).ok_or(Malformed)?;
    Ok(Said { check, limit, status: Status { limit: most, remaining, reset }, at })
}
