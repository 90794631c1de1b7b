//! The store's balance of one limit.
//!
//! Every amount is either *outstanding* (granted to a node and not known to be spent; counted once for all limits
//! by the [model](super::model)) or *spent*. A bucket's debt counts both, and never falls below the outstanding
//! amount. A window's cells count spending, in the cell of the time at which the store learned of it.

use super::params::{LeaseLimit, MAX_EXACT, TICKS_PER_MICRO};

/// The store's balance of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LimitBalance {
    /// Ticks until a bucket would be full if nothing were outstanding.
    Debt(u64),
    /// Current cells, oldest first: index, and the amount spent in it.
    Cells(Vec<(u64, u64)>),
}

/// Maximum debt in ticks: three days, or two full buckets. More could not be added up without rounding.
const fn max_debt(interval: u64, burst: u64) -> u64 {
    let two_bursts = 2 * interval * burst;
    if two_bursts > MAX_EXACT { two_bursts } else { MAX_EXACT }
}

/// Ticks for `tokens`, capped at the maximum debt.
fn token_ticks(interval: u64, burst: u64, tokens: u64) -> u64 {
    tokens.saturating_mul(interval).min(max_debt(interval, burst))
}

impl LimitBalance {
    pub(super) fn new(bound: &LeaseLimit) -> Self {
        match bound {
            LeaseLimit::Bucket { .. } => Self::Debt(0),
            LeaseLimit::Window { .. } => Self::Cells(Vec::new()),
        }
    }

    /// Advances time from `last` to `now` with `out` outstanding.
    pub(super) fn advance(&mut self, bound: &LeaseLimit, last: u64, now: u64, out: u64) {
        match (self, bound) {
            (Self::Debt(debt), LeaseLimit::Bucket { interval, burst }) => {
                let elapsed = (now - last).saturating_mul(TICKS_PER_MICRO);
                *debt = debt.saturating_sub(elapsed).max(token_ticks(*interval, *burst, out));
            }
            (Self::Cells(counts), LeaseLimit::Window { cell, cells, .. }) => {
                counts.retain(|(number, _)| (number + cells + 1) * cell > now);
            }
            _ => {}
        }
    }

    /// Amount that fits next to the spent and the outstanding amount.
    pub(super) fn available(&self, bound: &LeaseLimit, out: u64) -> u64 {
        match (self, bound) {
            (Self::Debt(debt), LeaseLimit::Bucket { interval, burst }) => {
                (interval * burst).saturating_sub(*debt) / interval
            }
            (Self::Cells(counts), LeaseLimit::Window { limit, .. }) => {
                let used: u64 = counts.iter().map(|(_, count)| count).sum();
                limit.saturating_sub(used).saturating_sub(out)
            }
            _ => 0,
        }
    }

    /// Grants `amount`.
    pub(super) fn grant(&mut self, bound: &LeaseLimit, amount: u64) {
        if let (Self::Debt(debt), LeaseLimit::Bucket { interval, burst }) = (self, bound) {
            let new_debt = (*debt + token_ticks(*interval, *burst, amount)).min(max_debt(*interval, *burst));
            // Debt from other parameters of the same rule may be higher, and is kept.
            *debt = new_debt.max(*debt);
        }
    }

    /// Returns an outstanding `amount` unspent.
    pub(super) fn return_unspent(&mut self, bound: &LeaseLimit, amount: u64) {
        if let (Self::Debt(debt), LeaseLimit::Bucket { interval, burst }) = (self, bound) {
            *debt = debt.saturating_sub(token_ticks(*interval, *burst, amount));
        }
    }

    /// Records an outstanding `amount` as spent, no later than `now`.
    pub(super) fn spend(&mut self, bound: &LeaseLimit, now: u64, amount: u64) {
        if let (Self::Cells(counts), LeaseLimit::Window { limit, cell, .. }) = (self, bound)
            && amount > 0
        {
            let current = now / cell;
            // Capped at two full windows: more makes no difference.
            let amount = amount.min(2 * limit);
            match counts.last_mut() {
                Some((number, count)) if *number == current => *count = (*count + amount).min(2 * limit).max(*count),
                _ => counts.push((current, amount)),
            }
        }
    }

    /// Nanoseconds until `cost` would fit.
    pub(super) fn wait(&self, bound: &LeaseLimit, now: u64, out: u64, cost: u64) -> u64 {
        match (self, bound) {
            (Self::Debt(debt), LeaseLimit::Bucket { interval, burst }) => {
                (*debt + token_ticks(*interval, *burst, cost)).saturating_sub(interval * burst).div_ceil(16)
            }
            (Self::Cells(counts), LeaseLimit::Window { limit, cell, cells }) => {
                let used: u64 = counts.iter().map(|(_, count)| count).sum();
                let mut over = (used + out + cost).saturating_sub(*limit);
                if over == 0 {
                    return 0;
                }
                // Outstanding tokens must be spent or returned first; they drop out no later than the newest cell.
                let mut last = now / cell;
                for (number, count) in counts {
                    over = over.saturating_sub(*count);
                    if over == 0 {
                        last = *number;
                        break;
                    }
                }
                ((last + cells + 1) * cell - now) * 1_000
            }
            _ => 0,
        }
    }

    /// Time in microseconds at which everything is available again, if the leases (expiry and amount, soonest
    /// first) expire unchanged.
    pub(super) fn full_at(&self, bound: &LeaseLimit, now: u64, leases: &[(u64, u64)]) -> u64 {
        match (self, bound) {
            (Self::Debt(debt), LeaseLimit::Bucket { interval, burst }) => {
                let mut out: u64 = leases.iter().map(|(_, amount)| amount).sum();
                let (mut at, mut debt) = (now, *debt);
                for (end, amount) in leases {
                    let elapsed = (end - at).saturating_mul(TICKS_PER_MICRO);
                    debt = debt.saturating_sub(elapsed).max(token_ticks(*interval, *burst, out));
                    (at, out) = (*end, out - amount);
                }
                at + debt.div_ceil(TICKS_PER_MICRO)
            }
            (Self::Cells(counts), LeaseLimit::Window { cell, cells, .. }) => {
                let spent = counts.last().map(|(number, _)| *number);
                let release = leases.last().map(|(end, _)| end / cell);
                spent.max(release).map_or(now, |newest| (newest + cells + 1) * cell)
            }
            _ => now,
        }
    }
}
