//! What the store keeps of one limit.
//!
//! Every amount is either *out* (granted to a node and not known to be spent; counted once for all limits by
//! the [ledger](super::ledger)) or *spent*. A bucket's debt counts both, and never sinks below what is out.
//! A window's cells count what is spent, in the cell of the moment at which the store learned of it.

use super::terms::{Bound, EXACT, TICKS_PER_MICRO};

/// What the store keeps of one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tally {
    /// Ticks until a bucket would be full if nothing were out.
    Debt(u64),
    /// Cells that count, oldest first: number, and what was spent in it.
    Cells(Vec<(u64, u64)>),
}

/// The most ticks that are owed: three days, or two full buckets. More could not be added up without rounding.
const fn most_owed(interval: u64, burst: u64) -> u64 {
    let two_bursts = 2 * interval * burst;
    if two_bursts > EXACT { two_bursts } else { EXACT }
}

/// Ticks that `tokens` take, never more than that.
fn span(interval: u64, burst: u64, tokens: u64) -> u64 {
    tokens.saturating_mul(interval).min(most_owed(interval, burst))
}

impl Tally {
    pub(super) fn fresh(bound: &Bound) -> Self {
        match bound {
            Bound::Bucket { .. } => Self::Debt(0),
            Bound::Window { .. } => Self::Cells(Vec::new()),
        }
    }

    /// Lets time pass from `last` to `now` while `out` is out.
    pub(super) fn pass(&mut self, bound: &Bound, last: u64, now: u64, out: u64) {
        match (self, bound) {
            (Self::Debt(debt), Bound::Bucket { interval, burst }) => {
                let elapsed = (now - last).saturating_mul(TICKS_PER_MICRO);
                *debt = debt.saturating_sub(elapsed).max(span(*interval, *burst, out));
            }
            (Self::Cells(counts), Bound::Window { cell, cells, .. }) => {
                counts.retain(|(number, _)| (number + cells + 1) * cell > now);
            }
            _ => {}
        }
    }

    /// How much fits beside what is spent and what is out.
    pub(super) fn free(&self, bound: &Bound, out: u64) -> u64 {
        match (self, bound) {
            (Self::Debt(debt), Bound::Bucket { interval, burst }) => {
                (interval * burst).saturating_sub(*debt) / interval
            }
            (Self::Cells(counts), Bound::Window { limit, .. }) => {
                let used: u64 = counts.iter().map(|(_, count)| count).sum();
                limit.saturating_sub(used).saturating_sub(out)
            }
            _ => 0,
        }
    }

    /// `amount` goes out.
    pub(super) fn grant(&mut self, bound: &Bound, amount: u64) {
        if let (Self::Debt(debt), Bound::Bucket { interval, burst }) = (self, bound) {
            let owed = (*debt + span(*interval, *burst, amount)).min(most_owed(*interval, *burst));
            // What is owed by other numbers of the same rule may be more, and stays owed.
            *debt = owed.max(*debt);
        }
    }

    /// `amount` that was out comes back unspent.
    pub(super) fn back(&mut self, bound: &Bound, amount: u64) {
        if let (Self::Debt(debt), Bound::Bucket { interval, burst }) = (self, bound) {
            *debt = debt.saturating_sub(span(*interval, *burst, amount));
        }
    }

    /// `amount` that was out is known to be spent, at `now` at the latest.
    pub(super) fn spend(&mut self, bound: &Bound, now: u64, amount: u64) {
        if let (Self::Cells(counts), Bound::Window { limit, cell, .. }) = (self, bound)
            && amount > 0
        {
            let current = now / cell;
            // No more than two full windows: beyond that nothing changes.
            let amount = amount.min(2 * limit);
            match counts.last_mut() {
                Some((number, count)) if *number == current => *count = (*count + amount).min(2 * limit).max(*count),
                _ => counts.push((current, amount)),
            }
        }
    }

    /// Nanoseconds until `cost` would fit.
    pub(super) fn wait(&self, bound: &Bound, now: u64, out: u64, cost: u64) -> u64 {
        match (self, bound) {
            (Self::Debt(debt), Bound::Bucket { interval, burst }) => {
                (*debt + span(*interval, *burst, cost)).saturating_sub(interval * burst).div_ceil(16)
            }
            (Self::Cells(counts), Bound::Window { limit, cell, cells }) => {
                let used: u64 = counts.iter().map(|(_, count)| count).sum();
                let mut over = (used + out + cost).saturating_sub(*limit);
                if over == 0 {
                    return 0;
                }
                // What is out must be spent or come back first; no later than the newest cell it drops out.
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

    /// When everything is available again, in microseconds, if the leases (end and amount, soonest first)
    /// end as they are.
    pub(super) fn full_at(&self, bound: &Bound, now: u64, leases: &[(u64, u64)]) -> u64 {
        match (self, bound) {
            (Self::Debt(debt), Bound::Bucket { interval, burst }) => {
                let mut out: u64 = leases.iter().map(|(_, amount)| amount).sum();
                let (mut at, mut debt) = (now, *debt);
                for (end, amount) in leases {
                    let elapsed = (end - at).saturating_mul(TICKS_PER_MICRO);
                    debt = debt.saturating_sub(elapsed).max(span(*interval, *burst, out));
                    (at, out) = (*end, out - amount);
                }
                at + debt.div_ceil(TICKS_PER_MICRO)
            }
            (Self::Cells(counts), Bound::Window { cell, cells, .. }) => {
                let spent = counts.last().map(|(number, _)| *number);
                let ending = leases.last().map(|(end, _)| end / cell);
                spent.max(ending).map_or(now, |newest| (newest + cells + 1) * cell)
            }
            _ => now,
        }
    }
}
