//! Ending what was taken: settling it to what it really cost, and giving permits back.
//!
//! The store keeps no mark of what each caller took, so it gives back only what it can tell apart by the
//! moment it was taken: tokens if nobody came since, a count in a window or cell that still stands, the
//! entries of a log of that moment. It never leaves more than if the actual cost had been taken at first.
//!
//! What is given back without a moment was somebody else's. It comes off whatever counts, the oldest of it
//! first, as the engine's `Algorithm::refund` has it.

use std::sync::Arc;

use redis::Value;

use super::arguments::{Arguments, Standing};
use super::reply::{Malformed, Numbers};
use super::scripts::END;
use crate::ask::PermitId;
use crate::invocation::Invocation;
use crate::keys::StoreKey;
use crate::prepared::PreparedLimits;

/// One unit that was taken, and what it really cost.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) key: StoreKey,
    pub(crate) limits: Arc<PreparedLimits>,
    /// What was taken.
    pub(crate) taken: u64,
    /// When, as [`Said`](crate::ask::Said) told it; 0 if nobody knows, and it was somebody else's.
    pub(crate) at: u64,
    /// What it really cost; zero gives all back. Permits are given back whatever it is.
    pub(crate) actual: u64,
    pub(crate) permit: Option<PermitId>,
}

/// The call that ends these units.
pub(crate) fn encode_end(endings: &[Ending], now: Option<u64>) -> Invocation {
    let mut arguments = Arguments::default();
    for ending in endings {
        let numbers = [ending.taken, ending.at, ending.actual];
        arguments.unit(&ending.key, &ending.limits, Standing::Last, &numbers, ending.permit);
    }
    arguments.invoke(&END, now)
}

/// Of each unit whether its permits were still there, and how many foreign values were replaced.
pub(crate) fn decode_end(value: Value, endings: &[Ending]) -> Result<(Vec<bool>, u64), Malformed> {
    let mut numbers = Numbers::of(value)?;
    let (_, healed) = (numbers.next()?, numbers.next()?);
    let released = endings.iter().map(|_| numbers.flag()).collect::<Result<_, _>>()?;
    numbers.end()?;
    Ok((released, healed))
}
