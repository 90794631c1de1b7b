//! Numeric encoding of limits for saved state.

use std::time::Duration;

use super::{Limit, LimitError, Rate};
use crate::algorithm::Alignment;
use crate::time::saturating_nanos;

/// Words of an encoded limit.
pub(crate) const WORDS: usize = 5;

/// Encodes kind, count, period and two further numbers. For a bucket, the last one is 1 if it is reservable.
pub(crate) fn encode(limit: &Limit) -> [u64; WORDS] {
    let rate = |rate: Rate| (rate.count(), saturating_nanos(rate.period()));
    let (kind, (count, nanos), third, fourth) = match limit {
        Limit::TokenBucket(l) => (1, rate(l.rate()), l.burst(), u64::from(l.is_reservable())),
        Limit::LeakyBucket(l) => (2, rate(l.rate()), l.queue(), 0),
        Limit::FixedWindow(l) => {
            let from_first_use = u64::from(l.alignment() == Alignment::FirstUse);
            (3, (l.limit(), saturating_nanos(l.window())), from_first_use, 0)
        }
        Limit::SlidingWindow(l) => (4, (l.limit(), saturating_nanos(l.window())), u64::from(l.cells()), 0),
        Limit::InterpolatedWindow(l) => (5, (l.limit(), saturating_nanos(l.window())), 0, 0),
        Limit::SlidingLog(l) => (6, (l.limit(), saturating_nanos(l.window())), 0, 0),
        Limit::Concurrency(l) => (7, (l.limit(), 0), 0, 0),
        Limit::Bandwidth(l) => (8, rate(l.rate()), l.burst(), u64::from(l.is_reservable())),
        Limit::WarmUp(l) => (9, rate(l.rate()), saturating_nanos(l.warm_up()), u64::from(l.cold_factor())),
    };
    [kind, count, nanos, third, fourth]
}

/// Decodes and validates a limit.
pub(crate) fn decode([kind, count, nanos, third, fourth]: [u64; WORDS]) -> Result<Limit, LimitError> {
    let span = Duration::from_nanos(nanos);
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let limit = match kind {
        1 => Limit::token_bucket(Rate::new(count, span)?, third)?,
        2 => Limit::leaky_bucket(Rate::new(count, span)?, third)?,
        3 => Limit::fixed_window(count, span, if third == 0 { Alignment::Epoch } else { Alignment::FirstUse })?,
        4 => Limit::sliding_window(count, span, small(third))?,
        5 => Limit::interpolated_window(count, span)?,
        6 => Limit::sliding_log(count, span)?,
        7 => Limit::concurrency(count)?,
        8 => Limit::bandwidth(Rate::new(count, span)?, third)?,
        9 => Limit::warm_up(Rate::new(count, span)?, Duration::from_nanos(third), small(fourth))?,
        _ => return Err(LimitError::NoLimits),
    };
    let reservable = fourth == 1 && matches!(kind, 1 | 8);
    Ok(if reservable { limit.reservable() } else { limit })
}
