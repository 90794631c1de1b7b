//! Counts that a fleet of processes shares: the engine's side of a store.
//!
//! A rule with `scope: cluster` is not counted in this process. The engine decides everything else first
//! and takes what that costs; then it asks a [`FleetStore`] for all cluster-wide rules of the request
//! together, all or nothing. If the store refuses, what was taken here goes back. If the store does not
//! answer, the rule's own policy decides, and the decision says so.
//!
//! The engine does no input or output: stores are other crates. What a rule may decide without leaving
//! the process, because it holds a slice of the limit, it decides [at once](FleetLimits::at_once).

mod key;
mod share;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::algorithm::{Alignment, Check, Status};
use crate::limit::{Limit, LimitError};
use crate::rule::Rule;
use crate::time::Timestamp;

pub use key::FleetKey;
pub use share::share_of;

/// The longest time a token bucket may take to fill up and still be leased: three days, as far as the
/// numbers of a store reach.
const LONGEST_LEASED_FILL: Duration = Duration::from_secs(3 * 86_400);

/// Whether processes can take slices of a limit and decide by themselves. Where one of a rule's limits
/// cannot be leased, the store decides each request.
///
/// ```
/// use sluicegate_engine::{Limit, fleet::is_leasable};
///
/// assert!(is_leasable(&"1000/s".parse()?));
/// assert!(!is_leasable(&Limit::concurrency(50)?));
/// # Ok::<(), sluicegate_engine::LimitError>(())
/// ```
pub fn is_leasable(limit: &Limit) -> bool {
    match limit {
        Limit::TokenBucket(bucket) | Limit::Bandwidth(bucket) => {
            bucket.rate().time_for(bucket.burst()) < LONGEST_LEASED_FILL
        }
        Limit::SlidingWindow(_) => true,
        Limit::FixedWindow(window) => window.alignment() == Alignment::Epoch,
        _ => false,
    }
}

/// Keeps counts that the processes of a fleet share.
pub trait FleetStore: Any + fmt::Debug + Send + Sync {
    /// Takes up a cluster-wide rule. Called for each whenever rules are put in force, also for those that
    /// stood before; what the store holds for a rule of the same name goes on. Fails if the store cannot
    /// keep such limits, and then the rules are not put in force: those that stood before go on, with what was
    /// opened for them. `seed` is what keys are hashed with; limits are never shared between different ones.
    fn open(&self, rule: &Rule, seed: u64) -> Result<Arc<dyn FleetLimits>, LimitError>;

    /// Asks for everything one request wants: all of it is taken, or nothing is. Dropping a question that
    /// has not been answered takes it back.
    fn ask(&self, wants: Wants) -> Asked;

    /// How many processes share the counts, as far as is known; at least one.
    fn nodes(&self) -> u32;
}

/// The limits of one rule, kept by a store.
pub trait FleetLimits: Any + fmt::Debug + Send + Sync {
    /// Decides without leaving the process, if that can be done. `None`: [`FleetStore::ask`] must be asked.
    fn at_once(&self, key: u64, cost: u64, now: Timestamp) -> Option<(FleetSaid, FleetMark)>;

    /// Corrects what was taken at once, and marked so, to what it really cost.
    fn settle(&self, key: u64, taken: u64, actual: u64, mark: FleetMark);
}

/// What limits mark a taking with, so that they know it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetMark(pub [u64; 2]);

/// What a request wants of one rule.
#[derive(Clone, Debug)]
pub struct Want {
    /// The rule's limits, as the store opened them.
    pub limits: Arc<dyn FleetLimits>,
    /// The key's hash in this process.
    pub hash: u64,
    /// The key itself, the same in every process.
    pub key: FleetKey,
    /// How much; zero only looks.
    pub cost: u64,
}

/// What a request wants, of at least one rule.
pub type Wants = SmallVec<[Want; 1]>;

/// An answer, now or later.
pub enum Asked {
    /// There it is.
    Now(Answer),
    /// It comes within the store's deadline.
    Later(Pin<Box<dyn Future<Output = Answer> + Send>>),
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// What came of a question.
pub type Answer = Result<Granted, StoreLost>;

/// What a store said about all wants, in their order.
#[derive(Debug)]
pub struct Granted {
    /// One for each want.
    pub said: SmallVec<[FleetSaid; 1]>,
    /// What was taken, if all were admitted and there is something to end.
    pub taken: Option<Box<dyn FleetTaken>>,
}

/// What a store said about one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetSaid {
    /// Whether it fits.
    pub check: Check,
    /// The limit that hangs on, by its position in the rule.
    pub limit: usize,
    /// What is left of it.
    pub status: Status,
}

impl FleetSaid {
    /// Said of a want that was not asked for, because another had been refused before.
    pub const NOT_ASKED: Self =
        Self { check: Check::Now, limit: 0, status: Status { limit: 0, remaining: 0, reset: 0 } };

    /// Whether it was asked for: every limit there is has a size.
    pub const fn was_asked(&self) -> bool {
        self.status.limit > 0
    }
}

/// The store did not answer in time, or is known not to. Why is the store's to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLost;

/// What was taken from a store.
pub trait FleetTaken: fmt::Debug + Send + Sync {
    /// Whether somebody waits for it to end.
    fn is_held(&self) -> bool;

    /// Ends it with what each want really cost.
    fn end(self: Box<Self>, actual: &[u64]);

    /// Gives back more than was taken: so much of each want, which somebody took before.
    fn refund(self: Box<Self>, amounts: &[u64]);
}
