//! What was taken from a plan's limits, and how it ends.

use super::{Marks, Plan};
use crate::algorithm::gcra::ticks;
use crate::algorithm::{Algorithm, Taken};
use crate::limit::{Limit, each_algorithm};
use crate::table::Place;
use crate::time::Timestamp;

/// What was taken from a plan's limits and where it stands, to be ended later.
#[derive(Clone, Debug)]
pub(crate) struct Taking {
    /// The plan it was taken from.
    plan: u64,
    at: Timestamp,
    pub(crate) cost: u64,
    marks: Marks,
    /// Whether tokens count as out until it ends.
    held: bool,
    /// What must be given back whatever happens.
    holds: Option<Holds>,
    pub(crate) place: Place,
}

/// What is held of a plan's limits. Nearly always it is one that holds, and that needs no memory of its own.
#[derive(Clone, Debug)]
pub(crate) enum Holds {
    One(Hold),
    Several(Box<[Hold]>),
}

/// What is held of one limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    /// The limit it belongs to.
    lineage: u64,
    amount: u64,
    /// Whether it is permits, and not tokens that count as out.
    is_permits: bool,
}

impl Taking {
    /// Whether somebody waits for it to end.
    pub(crate) const fn is_held(&self) -> bool {
        self.holds.is_some()
    }

    /// How many permits it holds.
    pub(crate) fn permits(&self) -> u64 {
        self.holds.as_ref().map_or(0, Holds::permits)
    }

    /// What must be given back, without what else it takes to correct the cost.
    pub(crate) fn into_holds(self) -> Option<Holds> {
        self.holds
    }
}

impl Holds {
    fn as_slice(&self) -> &[Hold] {
        match self {
            Self::One(hold) => std::slice::from_ref(hold),
            Self::Several(holds) => holds,
        }
    }

    /// How many permits are held. Those of several limits are the same ones.
    pub(crate) fn permits(&self) -> u64 {
        self.as_slice().iter().filter(|hold| hold.is_permits).map(|hold| hold.amount).max().unwrap_or(0)
    }
}

impl Plan {
    /// Takes `cost` from every limit and puts down what is needed to end it.
    #[inline]
    pub(crate) fn take(&self, state: &mut [u64], now: Timestamp, cost: u64, hold: bool, taken: &mut Option<Taking>) {
        let holds = ((hold || self.permits) && cost > 0).then(|| self.holds_of(cost, hold));
        let marks = Marks::new();
        let taking = Taking { plan: self.id, at: now, cost, marks, held: hold, holds, place: Place::Own };
        // The marks are written where they stay: they are too fresh to be moved without waiting for them.
        self.commit(state, now, cost, hold, &mut taken.insert(taking).marks);
    }

    fn holds_of(&self, cost: u64, hold: bool) -> Holds {
        let mut holding = self.limits.iter().zip(&self.lineage).filter_map(|(limit, &lineage)| match limit {
            Limit::Concurrency(_) => Some(Hold { lineage, amount: self.permits_of(cost), is_permits: true }),
            Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) if hold && bucket.is_reservable() => {
                Some(Hold { lineage, amount: cost, is_permits: false })
            }
            _ => None,
        });
        match (holding.next(), holding.next()) {
            (Some(one), None) => Holds::One(one),
            (first, second) => Holds::Several(first.into_iter().chain(second).chain(holding).collect()),
        }
    }

    /// Ends what was taken, from this plan or from one it replaced. Answers what is still to be charged.
    pub(crate) fn end(&self, state: &mut [u64], taking: &Taking, actual: u64, now: Timestamp) -> u64 {
        if taking.plan == self.id {
            self.settle(state, taking, actual, now);
            return 0;
        }
        if let Some(holds) = &taking.holds {
            self.release(state, holds, now);
        }
        actual.saturating_sub(taking.cost)
    }

    /// Charges the rates, whether it fits or not; permits are no matter of cost.
    pub(crate) fn charge(&self, state: &mut [u64], now: Timestamp, cost: u64) {
        self.each_mut(state, |limit, part| {
            if !limit.is_concurrency() {
                each_algorithm!(limit, algorithm => algorithm.commit(part, now, cost, false));
            }
        });
    }

    /// Gives back what somebody took, nobody knows when. What paces keeps it, and permits are their holders'.
    pub(crate) fn refund(&self, state: &mut [u64], now: Timestamp, amount: u64) {
        self.each_mut(state, |limit, part| each_algorithm!(limit, algorithm => algorithm.refund(part, now, amount)));
    }

    /// Corrects every limit to what it really cost; permits go back.
    ///
    /// Where keys share a state, only what is held can be given back: the rest of it may be another's.
    fn settle(&self, state: &mut [u64], taking: &Taking, actual: u64, now: Timestamp) {
        let mut marks = taking.marks.iter();
        self.each_mut(state, |limit, part| {
            let Some(&mark) = marks.next() else { return };
            let cost = self.cost_of(limit, taking.cost);
            let taken = Taken { at: taking.at, cost, mark, held: taking.held };
            let actual = match limit {
                Limit::Concurrency(_) => 0,
                Limit::TokenBucket(_) | Limit::Bandwidth(_) if taking.held => actual,
                _ if taking.place == Place::Strict => actual.max(cost),
                _ => actual,
            };
            each_algorithm!(limit, algorithm => algorithm.settle(part, taken, actual, now));
        });
    }

    /// Gives back what a request holds, under this plan or an older one: its permits, and its claim on tokens as far
    /// as they are still counted.
    pub(crate) fn release(&self, state: &mut [u64], holds: &Holds, now: Timestamp) {
        let holds = holds.as_slice();
        let mut lineage = self.lineage.iter();
        self.each_mut(state, |limit, part| {
            let lineage = lineage.next();
            let Some(Hold { amount, .. }) = holds.iter().find(|hold| Some(&hold.lineage) == lineage) else { return };
            match (limit, part) {
                (Limit::Concurrency(_), [permits]) => *permits = permits.saturating_sub(*amount),
                (Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket), part) => bucket.release(part, *amount, now),
                _ => {}
            }
        });
    }

    /// Gives back so many permits of each concurrency limit.
    pub(super) fn give_back_permits(&self, state: &mut [u64], permits: u64) {
        self.each_mut(state, |limit, part| {
            if limit.is_concurrency() {
                part[0] = part[0].saturating_sub(permits);
            }
        });
    }

    /// Forgets everything but what is held: whoever holds it will give it back.
    pub(crate) fn forgive(&self, state: &mut [u64], now: Timestamp) {
        self.each_mut(state, |limit, part| match (limit, part) {
            (Limit::Concurrency(_), _) => {}
            (Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket), [arrival, out]) => {
                *arrival = ticks(now).saturating_add(bucket.gcra().span(*out));
            }
            (_, part) => part.fill(0),
        });
    }

    /// Empties whatever is held: after a restart nobody is left to give it back.
    pub(crate) fn drop_holds(&self, state: &mut [u64]) {
        self.each_mut(state, |limit, part| match (limit, part) {
            (Limit::Concurrency(_), part) => part.fill(0),
            (Limit::TokenBucket(_) | Limit::Bandwidth(_), [_, out]) => *out = 0,
            _ => {}
        });
    }
}
