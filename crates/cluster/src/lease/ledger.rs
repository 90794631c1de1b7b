//! The store's side of leasing as a pure function: what `lease.lua` must do, to the last number.
//!
//! The store itself runs the script; this is its specification, and what the simulation runs.

use super::message::{Account, LeaseAnswer, LeaseReply, LeaseRequest, NodeId, Run, SPENT_WRAPS, Taken};
use super::tally::Tally;
use super::terms::Leasable;

/// The most nodes that have leases of one key at a time. Others are served one request at a time.
pub(crate) const MOST_NODES: usize = 256;

/// Who could not have so much at a time gets nothing: its callers are better served one by one, and nothing
/// lies idle meanwhile.
const SMALLEST_SLICE: u64 = 4;

/// What the store keeps of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// When it was last touched, in microseconds. A clock that steps back stands still.
    last: u64,
    tallies: Vec<Tally>,
    records: Vec<Record>,
}

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    node: NodeId,
    epoch: u64,
    sequence: u64,
    /// All its holder ever spent, as it said last.
    spent: u64,
    /// What it was granted and has not been heard of since.
    out: u64,
    /// When all that counts as spent.
    expires: u64,
}

impl Ledger {
    /// Everything available, nobody known.
    pub(crate) fn new(terms: &Leasable) -> Self {
        Self { last: 0, tallies: terms.bounds().iter().map(Tally::fresh).collect(), records: Vec::new() }
    }

    /// Does what is asked at `now`, in microseconds.
    pub(crate) fn apply(&mut self, terms: &Leasable, now: u64, request: &LeaseRequest) -> LeaseReply {
        self.pass(terms, now);
        let account = &request.account;
        let known = self.records.iter().position(|record| record.node == account.node);
        if let Some(record) = known.map(|at| &self.records[at])
            && (account.epoch, account.sequence) <= (record.epoch, record.sequence)
        {
            return LeaseReply::Stale;
        }
        let mut answer = LeaseAnswer::default();
        let place = self.open(terms, known, account);
        if let Some(at) = place {
            answer.kept = self.account_for(terms, at, account);
            self.records[at].expires = self.last + request.life;
        }
        let (now, charge) = (self.last, account.charge);
        self.each(terms, |tally, bound| {
            tally.grant(bound, charge);
            tally.spend(bound, now, charge);
        });
        answer.takes = request.takes.iter().map(|run| self.take(terms, run)).collect();
        if let Some(at) = place {
            answer.granted = self.grant(terms, at, account.want);
        }
        answer.free = self.free(terms);
        answer.reset = self.full_at(terms) - self.last;
        LeaseReply::Done(answer)
    }

    /// From when on it is the same as a fresh one, apart from the names of nodes that hold nothing.
    pub(crate) fn full_at(&self, terms: &Leasable) -> u64 {
        let mut leases: Vec<_> = self.records.iter().filter(|r| r.out > 0).map(|r| (r.expires, r.out)).collect();
        leases.sort_unstable();
        let each = terms.bounds().iter().zip(&self.tallies);
        each.map(|(bound, tally)| tally.full_at(bound, self.last, &leases)).max().unwrap_or(self.last)
    }

    /// What is out on lease.
    pub(crate) fn out(&self) -> u64 {
        self.records.iter().map(|record| record.out).sum()
    }

    /// Whether all that a node's holder has spent since it was last heard of, and all that it holds, is out.
    #[cfg(test)]
    pub(crate) fn covers(&self, now: u64, account: &Account) -> bool {
        let own = |record: &&Record| (record.node, record.epoch) == (account.node, account.epoch);
        self.records.iter().find(own).is_some_and(|record| {
            let newly = account.spent.wrapping_sub(record.spent) % SPENT_WRAPS;
            record.expires > now && newly.saturating_add(account.holding) <= record.out
        })
    }

    /// What could be taken now.
    pub(crate) fn free(&self, terms: &Leasable) -> u64 {
        let out = self.out();
        let each = terms.bounds().iter().zip(&self.tallies);
        each.map(|(bound, tally)| tally.free(bound, out)).min().unwrap_or(0)
    }

    /// Lets time pass. A lease that ended meanwhile counts as spent at the moment it ended.
    fn pass(&mut self, terms: &Leasable, now: u64) {
        let now = now.max(self.last);
        self.records.sort_unstable_by_key(|record| record.expires);
        while let Some(first) = self.records.first()
            && first.expires <= now
        {
            let (end, out) = (first.expires, first.out);
            self.pass_to(terms, end);
            self.records.remove(0);
            self.each(terms, |tally, bound| tally.spend(bound, end, out));
        }
        self.pass_to(terms, now);
    }

    fn pass_to(&mut self, terms: &Leasable, now: u64) {
        let (last, out) = (self.last, self.out());
        self.each(terms, |tally, bound| tally.pass(bound, last, now, out));
        self.last = now;
    }

    /// The node's record: a new one if it is unknown, or if another of its holders speaks from now on.
    fn open(&mut self, terms: &Leasable, known: Option<usize>, account: &Account) -> Option<usize> {
        let Account { node, epoch, sequence, spent, .. } = *account;
        let fresh = Record { node, epoch, sequence, spent, out: 0, expires: 0 };
        match known {
            Some(at) if self.records[at].epoch == epoch => Some(at),
            Some(at) => {
                // What the holder before it had is not known: strictly, it is spent.
                let (now, out) = (self.last, self.records[at].out);
                self.each(terms, |tally, bound| tally.spend(bound, now, out));
                self.records[at] = fresh;
                Some(at)
            }
            None if self.records.len() < MOST_NODES => {
                self.records.push(fresh);
                Some(self.records.len() - 1)
            }
            None => None,
        }
    }

    /// Books what a node spent, takes back what it does not hold, and says how much it may keep.
    fn account_for(&mut self, terms: &Leasable, at: usize, account: &Account) -> u64 {
        let (now, record) = (self.last, &mut self.records[at]);
        let newly = account.spent.wrapping_sub(record.spent) % SPENT_WRAPS;
        let covered = newly.min(record.out);
        let rest = record.out - covered;
        let kept = rest.min(account.holding);
        (record.sequence, record.spent, record.out) = (account.sequence, account.spent, kept);
        self.each(terms, |tally, bound| {
            tally.back(bound, rest - kept);
            tally.spend(bound, now, newly);
            // Only after a loss of the store has a node spent what it was never granted.
            tally.grant(bound, newly - covered);
        });
        // It holds what is not out only after a loss, or after its lease has ended.
        let adopted = (account.holding - kept).min(self.free(terms));
        self.lend(terms, at, adopted);
        kept + adopted
    }

    fn lend(&mut self, terms: &Leasable, at: usize, amount: u64) {
        self.records[at].out += amount;
        self.each(terms, |tally, bound| tally.grant(bound, amount));
    }

    /// Takes for as many of a run as fit.
    fn take(&mut self, terms: &Leasable, run: &Run) -> Taken {
        let admitted = self.free(terms).checked_div(run.cost).map_or(run.count, |fit| fit.min(run.count));
        let (now, amount) = (self.last, admitted * run.cost);
        self.each(terms, |tally, bound| {
            tally.grant(bound, amount);
            tally.spend(bound, now, amount);
        });
        let out = self.out();
        let each = terms.bounds().iter().zip(&self.tallies);
        let waits = each.map(|(bound, tally)| tally.wait(bound, now, out, run.cost));
        let wait = if admitted < run.count { waits.max().unwrap_or(0) } else { 0 };
        Taken { admitted, wait }
    }

    /// Grants of what is wanted as much as is fair: half of the limit can be out in all, so that the other
    /// half has room to refill and to serve those who wait; and one node can have an equal share of that,
    /// or half of what nobody else has.
    fn grant(&mut self, terms: &Leasable, at: usize, want: u64) -> u64 {
        let (own, out) = (self.records[at].out, self.out());
        let leasable = (terms.capacity() / 2).saturating_sub(out - own);
        let share = terms.capacity() / 2 / self.records.len() as u64;
        let most = share.max(leasable / 2).min(leasable);
        let most = if most < SMALLEST_SLICE { 0 } else { most };
        let granted = want.min(most.saturating_sub(own)).min(self.free(terms));
        self.lend(terms, at, granted);
        granted
    }

    fn each(&mut self, terms: &Leasable, mut change: impl FnMut(&mut Tally, &super::terms::Bound)) {
        for (tally, bound) in self.tallies.iter_mut().zip(terms.bounds()) {
            change(tally, bound);
        }
    }
}
