//! Messages between a node and the store about one key.

use smallvec::SmallVec;

/// Modulus of the spent counter: a busy bandwidth key would outgrow the store's 53 bits.
pub(crate) const SPENT_MODULUS: u64 = 1 << 50;

/// Identifies a node; unique across processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u128);

/// A node's report and request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRequest {
    /// The node's account of the key.
    pub(crate) account: Account,
    /// Costs of waiting callers: taken, and spent, at once.
    pub(crate) takes: SmallVec<[CostRun; 2]>,
    /// Lease duration in microseconds, from the time the store processes the request.
    pub(crate) duration: u64,
}

/// A node's account of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) node: NodeId,
    /// Epoch of the reporting holder; later holders of the node have higher epochs.
    pub(crate) epoch: u64,
    /// Sequence number of the request, increasing per holder.
    pub(crate) sequence: u64,
    /// Total spent from this holder's leases, modulo [`SPENT_MODULUS`].
    pub(crate) spent: u64,
    /// Tokens the node keeps for spending. Any other outstanding tokens are returned.
    pub(crate) holding: u64,
    /// Additional tokens wanted.
    pub(crate) want: u64,
    /// Actual cost of requests beyond their estimates: charged even if it does not fit.
    pub(crate) charge: u64,
}

/// A run of queued callers with equal cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CostRun {
    pub(crate) cost: u64,
    pub(crate) count: u64,
}

/// The store's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaseReply {
    /// A later request of the node was already processed: nothing was done.
    Stale,
    /// The request was processed.
    Done(LeaseGrant),
}

/// Result of a processed request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseGrant {
    /// Amount of its slice the node may keep: all of it, unless the store had lost it.
    pub(crate) retained: u64,
    /// Additional tokens granted.
    pub(crate) granted: u64,
    /// Result of each run.
    pub(crate) takes: SmallVec<[RunResult; 2]>,
    /// Tokens left in the store.
    pub(crate) available: u64,
    /// Microseconds until everything is available again without further requests.
    pub(crate) reset: u64,
    /// True if a foreign value was removed from the key.
    pub(crate) replaced: bool,
}

/// Result of a run: the first `admitted` callers got their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RunResult {
    pub(crate) admitted: u64,
    /// For the others, nanoseconds until the next one would fit.
    pub(crate) wait: u64,
}
