//! Reference model of `lease.lua`: the store's side of leasing as a pure function, exact to the last number.
//!
//! The store runs the script; this is its specification, and the simulation runs it.

use super::limit_balance::LimitBalance;
use super::message::{Account, CostRun, LeaseGrant, LeaseReply, LeaseRequest, NodeId, RunResult, SPENT_MODULUS};
use super::params::LeaseParams;

/// Maximum nodes with leases of one key at a time. Others are served one request at a time.
pub(crate) const MAX_NODES: usize = 256;

/// A smaller slice is not granted: such callers are better served one by one, and no tokens
/// are tied up meanwhile.
const MIN_SLICE: u64 = 4;

/// The store's state of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseModel {
    /// Time of the last access, in microseconds. A clock that steps back stands still.
    last: u64,
    balances: Vec<LimitBalance>,
    records: Vec<NodeRecord>,
}

/// The store's record of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NodeRecord {
    node: NodeId,
    epoch: u64,
    sequence: u64,
    /// The holder's total spending, as last reported.
    spent: u64,
    /// Tokens granted and not reported since.
    outstanding: u64,
    /// Time at which the outstanding tokens count as spent.
    expires: u64,
}

impl LeaseModel {
    /// Everything available, no nodes known.
    pub(crate) fn new(params: &LeaseParams) -> Self {
        Self { last: 0, balances: params.limits().iter().map(LimitBalance::new).collect(), records: Vec::new() }
    }

    /// Applies a request at `now`, in microseconds.
    pub(crate) fn apply(&mut self, params: &LeaseParams, now: u64, request: &LeaseRequest) -> LeaseReply {
        self.advance(params, now);
        let account = &request.account;
        let known = self.records.iter().position(|record| record.node == account.node);
        if let Some(record) = known.map(|at| &self.records[at])
            && (account.epoch, account.sequence) <= (record.epoch, record.sequence)
        {
            return LeaseReply::Stale;
        }
        let mut grant = LeaseGrant::default();
        let record_index = self.open_record(params, known, account);
        if let Some(at) = record_index {
            grant.retained = self.settle_account(params, at, account);
            self.records[at].expires = self.last + request.duration;
        }
        let (now, charge) = (self.last, account.charge);
        self.for_each_limit(params, |balance, bound| {
            balance.grant(bound, charge);
            balance.spend(bound, now, charge);
        });
        grant.takes = request.takes.iter().map(|run| self.take(params, run)).collect();
        if let Some(at) = record_index {
            grant.granted = self.grant(params, at, account.want);
        }
        grant.available = self.available(params);
        grant.reset = self.full_at(params) - self.last;
        LeaseReply::Done(grant)
    }

    /// Time from which the state equals a fresh one, except for records of nodes without leases.
    pub(crate) fn full_at(&self, params: &LeaseParams) -> u64 {
        let mut leases: Vec<_> =
            self.records.iter().filter(|r| r.outstanding > 0).map(|r| (r.expires, r.outstanding)).collect();
        leases.sort_unstable();
        let each = params.limits().iter().zip(&self.balances);
        each.map(|(bound, balance)| balance.full_at(bound, self.last, &leases)).max().unwrap_or(self.last)
    }

    /// Total outstanding tokens.
    pub(crate) fn outstanding(&self) -> u64 {
        self.records.iter().map(|record| record.outstanding).sum()
    }

    /// True if everything a holder has spent since its last report, plus its slice, is outstanding.
    #[cfg(test)]
    pub(crate) fn covers(&self, now: u64, account: &Account) -> bool {
        let own = |record: &&NodeRecord| (record.node, record.epoch) == (account.node, account.epoch);
        self.records.iter().find(own).is_some_and(|record| {
            let newly = account.spent.wrapping_sub(record.spent) % SPENT_MODULUS;
            record.expires > now && newly.saturating_add(account.holding) <= record.outstanding
        })
    }

    /// Tokens available now.
    pub(crate) fn available(&self, params: &LeaseParams) -> u64 {
        let out = self.outstanding();
        let each = params.limits().iter().zip(&self.balances);
        each.map(|(bound, balance)| balance.available(bound, out)).min().unwrap_or(0)
    }

    /// Advances time. A lease that expired meanwhile counts as spent at its expiry.
    fn advance(&mut self, params: &LeaseParams, now: u64) {
        let now = now.max(self.last);
        self.records.sort_unstable_by_key(|record| record.expires);
        while let Some(first) = self.records.first()
            && first.expires <= now
        {
            let (end, out) = (first.expires, first.outstanding);
            self.advance_to(params, end);
            self.records.remove(0);
            self.for_each_limit(params, |balance, bound| balance.spend(bound, end, out));
        }
        self.advance_to(params, now);
    }

    fn advance_to(&mut self, params: &LeaseParams, now: u64) {
        let (last, out) = (self.last, self.outstanding());
        self.for_each_limit(params, |balance, bound| balance.advance(bound, last, now, out));
        self.last = now;
    }

    /// The node's record: a new one if the node is unknown or has a new holder.
    fn open_record(&mut self, params: &LeaseParams, known: Option<usize>, account: &Account) -> Option<usize> {
        let Account { node, epoch, sequence, spent, .. } = *account;
        let fresh = NodeRecord { node, epoch, sequence, spent, outstanding: 0, expires: 0 };
        match known {
            Some(at) if self.records[at].epoch == epoch => Some(at),
            Some(at) => {
                // The previous holder's tokens are unknown: strictly, they are spent.
                let (now, out) = (self.last, self.records[at].outstanding);
                self.for_each_limit(params, |balance, bound| balance.spend(bound, now, out));
                self.records[at] = fresh;
                Some(at)
            }
            None if self.records.len() < MAX_NODES => {
                self.records.push(fresh);
                Some(self.records.len() - 1)
            }
            None => None,
        }
    }

    /// Records the spending of a node, takes back tokens it no longer holds, and returns the amount it may keep.
    fn settle_account(&mut self, params: &LeaseParams, at: usize, account: &Account) -> u64 {
        let (now, record) = (self.last, &mut self.records[at]);
        let newly = account.spent.wrapping_sub(record.spent) % SPENT_MODULUS;
        let covered = newly.min(record.outstanding);
        let unspent = record.outstanding - covered;
        let retained = unspent.min(account.holding);
        (record.sequence, record.spent, record.outstanding) = (account.sequence, account.spent, retained);
        self.for_each_limit(params, |balance, bound| {
            balance.return_unspent(bound, unspent - retained);
            balance.spend(bound, now, newly);
            // A node has spent ungranted tokens only after the store lost its data.
            balance.grant(bound, newly - covered);
        });
        // A node holds tokens that are not outstanding only after a data loss or after its lease expired.
        let adopted = (account.holding - retained).min(self.available(params));
        self.lease_out(params, at, adopted);
        retained + adopted
    }

    fn lease_out(&mut self, params: &LeaseParams, at: usize, amount: u64) {
        self.records[at].outstanding += amount;
        self.for_each_limit(params, |balance, bound| balance.grant(bound, amount));
    }

    /// Takes for as many callers of a run as fit.
    fn take(&mut self, params: &LeaseParams, run: &CostRun) -> RunResult {
        let admitted = self.available(params).checked_div(run.cost).map_or(run.count, |fit| fit.min(run.count));
        let (now, amount) = (self.last, admitted * run.cost);
        self.for_each_limit(params, |balance, bound| {
            balance.grant(bound, amount);
            balance.spend(bound, now, amount);
        });
        let out = self.outstanding();
        let each = params.limits().iter().zip(&self.balances);
        let waits = each.map(|(bound, balance)| balance.wait(bound, now, out, run.cost));
        let wait = if admitted < run.count { waits.max().unwrap_or(0) } else { 0 };
        RunResult { admitted, wait }
    }

    /// Grants a fair part of the wanted amount: at most half of the limit is outstanding in total, so that the
    /// other half can refill and serve waiting callers; one node gets at most an equal share of that,
    /// or half of the unleased part.
    fn grant(&mut self, params: &LeaseParams, at: usize, want: u64) -> u64 {
        let (own, out) = (self.records[at].outstanding, self.outstanding());
        let lease_params = (params.capacity() / 2).saturating_sub(out - own);
        let share = params.capacity() / 2 / self.records.len() as u64;
        let max = share.max(lease_params / 2).min(lease_params);
        let max = if max < MIN_SLICE { 0 } else { max };
        let granted = want.min(max.saturating_sub(own)).min(self.available(params));
        self.lease_out(params, at, granted);
        granted
    }

    fn for_each_limit(
        &mut self,
        params: &LeaseParams,
        mut change: impl FnMut(&mut LimitBalance, &super::params::LeaseLimit),
    ) {
        for (balance, bound) in self.balances.iter_mut().zip(params.limits()) {
            change(balance, bound);
        }
    }
}
