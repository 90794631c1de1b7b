//! What a node says to the store about one key, and what the store answers.

use smallvec::SmallVec;

/// Where the count of what was spent begins anew: a busy key of bytes would outgrow the store's 53 bits.
pub(crate) const SPENT_WRAPS: u64 = 1 << 50;

/// Names a node: no two processes have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u128);

/// What a node says and wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeaseRequest {
    /// How the node stands with the key.
    pub(crate) account: Account,
    /// What callers are waiting for: taken, and spent, at once.
    pub(crate) takes: SmallVec<[Run; 2]>,
    /// How long the lease lasts, in microseconds from when the store reads this.
    pub(crate) life: u64,
}

/// How a node stands with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) node: NodeId,
    /// Which of the node's holders of this key speaks; a later one has a higher number.
    pub(crate) epoch: u64,
    /// The number of the request, higher in each of a holder's.
    pub(crate) sequence: u64,
    /// All that was ever spent from this holder's leases, modulo [`SPENT_WRAPS`].
    pub(crate) spent: u64,
    /// What is left of them and will go on being spent. Whatever else the store counts as out comes back.
    pub(crate) holding: u64,
    /// How much more it would like to have.
    pub(crate) want: u64,
    /// What requests turned out to cost beyond what they had taken: charged whether it fits or not.
    pub(crate) charge: u64,
}

/// So many callers in line, each of whom wants so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) cost: u64,
    pub(crate) count: u64,
}

/// What the store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LeaseReply {
    /// It has heard from the node since: nothing was done.
    Stale,
    /// It was done.
    Done(LeaseAnswer),
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaseAnswer {
    /// How much of what the node holds it may go on spending: all, unless the store had forgotten it.
    pub(crate) kept: u64,
    /// How much more it got.
    pub(crate) granted: u64,
    /// What became of each run.
    pub(crate) takes: SmallVec<[Taken; 2]>,
    /// What is left in the store.
    pub(crate) free: u64,
    /// Microseconds until everything is available again if nobody comes.
    pub(crate) reset: u64,
    /// Whether a value that was not ours stood at the key, and was removed.
    pub(crate) healed: bool,
}

/// What became of a run: the first so many got what they wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) admitted: u64,
    /// For the others, nanoseconds until one of them could get it.
    pub(crate) wait: u64,
}
