//! Charge to a limit set, and its settlement or release.

use super::{LimitSet, Marks};
use crate::algorithm::{Algorithm, HoldingKind, LimitCharge};
use crate::limit::each_algorithm;
use crate::time::Timestamp;

/// Location of a key's state in its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotLocation {
    /// In a slot of its own.
    Own,
    /// In the overflow slot, shared with other keys.
    Overflow,
}

/// Charge to the limits of a set and its location, to be ended later.
#[derive(Clone, Debug)]
pub(crate) struct Charge {
    /// Id of the charged limit set.
    limit_set: u64,
    at: Timestamp,
    pub(crate) cost: u64,
    marks: Marks,
    /// Set if tokens count as outstanding until the charge ends.
    reserved: bool,
    /// Holdings that must be released in any case.
    holdings: Option<Holdings>,
    pub(crate) slot: SlotLocation,
}

/// Holdings in a limit set. Nearly always only one limit has a holding, which then needs no allocation.
#[derive(Clone, Debug)]
pub(crate) enum Holdings {
    One(Holding),
    Several(Box<[Holding]>),
}

/// Holding in one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holding {
    /// Identity of the limit.
    lineage: u64,
    amount: u64,
    /// Set for permits, unset for outstanding tokens.
    is_permits: bool,
}

impl Charge {
    /// True if it holds permits or reservations that must be released.
    pub(crate) const fn holds_resources(&self) -> bool {
        self.holdings.is_some()
    }

    /// Number of permits held.
    pub(crate) fn permits(&self) -> u64 {
        self.holdings.as_ref().map_or(0, Holdings::permits)
    }

    /// Holdings to release, without the data for correcting the cost.
    pub(crate) fn into_holdings(self) -> Option<Holdings> {
        self.holdings
    }
}

impl Holdings {
    fn as_slice(&self) -> &[Holding] {
        match self {
            Self::One(holding) => std::slice::from_ref(holding),
            Self::Several(holdings) => holdings,
        }
    }

    /// Number of permits held. Several limits hold the same permits.
    pub(crate) fn permits(&self) -> u64 {
        self.as_slice().iter().filter(|hold| hold.is_permits).map(|hold| hold.amount).max().unwrap_or(0)
    }
}

impl LimitSet {
    /// Charges `cost` to every limit and stores the data for ending the charge.
    #[inline]
    pub(crate) fn take(
        &self,
        state: &mut [u64],
        now: Timestamp,
        cost: u64,
        reserve: bool,
        charge: &mut Option<Charge>,
    ) {
        let holdings = ((reserve || self.permits) && cost > 0).then(|| self.holdings_for(cost, reserve));
        let marks = Marks::new();
        let new_charge =
            Charge { limit_set: self.id, at: now, cost, marks, reserved: reserve, holdings, slot: SlotLocation::Own };
        // The marks are written in place: moving data that was just written would stall.
        self.commit(state, now, cost, reserve, &mut charge.insert(new_charge).marks);
    }

    fn holdings_for(&self, cost: u64, reserve: bool) -> Holdings {
        let mut holding = self.limits.iter().zip(&self.lineage).filter_map(|(limit, &lineage)| {
            match each_algorithm!(limit, algorithm => algorithm.holding())? {
                HoldingKind::Permits => Some(Holding { lineage, amount: self.permits_of(cost), is_permits: true }),
                HoldingKind::Tokens => reserve.then_some(Holding { lineage, amount: cost, is_permits: false }),
            }
        });
        match (holding.next(), holding.next()) {
            (Some(one), None) => Holdings::One(one),
            (first, second) => Holdings::Several(first.into_iter().chain(second).chain(holding).collect()),
        }
    }

    /// Ends a charge to this limit set or to one it replaced. Returns the cost still to be charged.
    pub(crate) fn end(&self, state: &mut [u64], charge: &Charge, actual: u64, now: Timestamp) -> u64 {
        if charge.limit_set == self.id {
            self.settle(state, charge, actual, now);
            return 0;
        }
        if let Some(holdings) = &charge.holdings {
            self.release(state, holdings, now);
        }
        actual.saturating_sub(charge.cost)
    }

    /// Charges the rate limits even beyond their limit; permits are not affected.
    pub(crate) fn charge(&self, state: &mut [u64], now: Timestamp, cost: u64) {
        self.each_mut(state, |limit, part| {
            if !limit.is_concurrency() {
                each_algorithm!(limit, algorithm => algorithm.commit(part, now, cost, false));
            }
        });
    }

    /// Refunds an earlier charge of unknown time. Pacing limits ignore it, and permits belong to their holders.
    pub(crate) fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64) {
        self.each_mut(state, |limit, part| each_algorithm!(limit, algorithm => algorithm.refund(part, now, amount)));
    }

    /// Corrects every limit to the actual cost; releases permits.
    ///
    /// If keys share a state, only holdings can be given back: the remaining charge may belong to another key.
    fn settle(&self, state: &mut [u64], charge: &Charge, actual: u64, now: Timestamp) {
        let mut marks = charge.marks.iter();
        self.each_mut(state, |limit, part| {
            let Some(&mark) = marks.next() else { return };
            let cost = self.cost_of(limit, charge.cost);
            let taken = LimitCharge { at: charge.at, cost, mark, reserved: charge.reserved };
            let actual = match charge.slot {
                _ if limit.is_concurrency() => 0,
                SlotLocation::Overflow if !(charge.reserved && limit.supports_reservations()) => actual.max(cost),
                _ => actual,
            };
            each_algorithm!(limit, algorithm => algorithm.settle(part, taken, actual, now));
        });
    }

    /// Releases the holdings of a request under this limit set or an older one: its permits, and its reserved
    /// tokens as far as they are still counted.
    pub(crate) fn release(&self, state: &mut [u64], holdings: &Holdings, now: Timestamp) {
        let holdings = holdings.as_slice();
        let mut lineage = self.lineage.iter();
        self.each_mut(state, |limit, part| {
            let lineage = lineage.next();
            let Some(Holding { amount, .. }) = holdings.iter().find(|hold| Some(&hold.lineage) == lineage) else {
                return;
            };
            each_algorithm!(limit, algorithm => algorithm.release(part, *amount, now));
        });
    }

    /// Releases this number of permits of each concurrency limit.
    pub(super) fn release_permits(&self, state: &mut [u64], permits: u64, now: Timestamp) {
        self.each_mut(state, |limit, part| {
            if limit.is_concurrency() {
                each_algorithm!(limit, algorithm => algorithm.release(part, permits, now));
            }
        });
    }

    /// Clears everything but holdings: their holders will release them.
    pub(crate) fn clear_unheld(&self, state: &mut [u64], now: Timestamp) {
        self.each_mut(state, |limit, part| each_algorithm!(limit, algorithm => algorithm.clear_unheld(part, now)));
    }

    /// Clears all holdings: after a restart they have no holders.
    pub(crate) fn clear_holdings(&self, state: &mut [u64]) {
        self.each_mut(state, |limit, part| each_algorithm!(limit, algorithm => algorithm.clear_holdings(part)));
    }
}
