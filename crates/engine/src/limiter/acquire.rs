//! Waiting for a turn instead of being refused.
//!
//! Callers of one key stand in line and are let out first in, first out, each at the exact moment the
//! limits admit it. Nobody passes a line: a caller who does not want to wait is refused while others
//! do. Whoever cannot make it before its deadline is told at once, not after it. Dropping the future
//! leaves the line, and everybody behind moves up.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::{Inner, Pass, Reason, Refused};
use crate::algorithm::Entry;
use crate::decision::Decision;
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::{Asked, InLine, Turn, block_on};

/// A wish to be let in. Await it, or wait for it with [`Acquire::blocking`].
///
/// ```
/// use sluicegate_engine::{Limiter, Limit, Rate};
/// use std::time::Duration;
///
/// let paced = Limiter::new(Limit::leaky_bucket(Rate::per_second(1_000)?, 10)?);
/// for _ in 0..3 {
///     paced.acquire().within(Duration::from_secs(1)).blocking()?; // a millisecond apart
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is acquired until this is awaited or `blocking` is called"]
pub struct Acquire {
    inner: Arc<Inner>,
    key: KeyHash,
    cost: u64,
    within: Option<Duration>,
    even_if_full: bool,
}

impl Acquire {
    pub(super) fn new(inner: Arc<Inner>, key: KeyHash) -> Self {
        Self { inner, key, cost: 1, within: None, even_if_full: false }
    }

    /// What to take; 1 unless told otherwise.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The longest wait. Without it, as long as it takes.
    pub fn within(mut self, longest: Duration) -> Self {
        self.within = Some(longest);
        self
    }

    /// Joins the line even if it is as long as it may be. For callers whose number is bounded by other
    /// means, and who have nowhere else to wait.
    pub fn even_if_full(mut self) -> Self {
        self.even_if_full = true;
        self
    }

    /// Waits on this thread.
    pub fn blocking(self) -> Result<Pass, Refused> {
        block_on(self.into_future())
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Pass, Refused>;
    type IntoFuture = Acquiring;

    fn into_future(self) -> Acquiring {
        let within = self.within;
        Acquiring(InLine::new(self, within))
    }
}

/// A caller in line, or about to be.
#[must_use = "futures do nothing unless polled"]
pub struct Acquiring(InLine<Acquire>);

impl Future for Acquiring {
    type Output = Result<Pass, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl Turn for Acquire {
    type Pass = Pass;
    type Refusal = Refused;

    fn limiter(&self) -> &Arc<Inner> {
        &self.inner
    }

    fn key(&self) -> KeyHash {
        self.key
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn even_if_full(&self) -> bool {
        self.even_if_full
    }

    fn ask(&mut self, now: Timestamp, _waker: &Waker) -> Asked<Pass> {
        let tried = self.inner.take(self.key, now, self.cost, Entry::Depart);
        match tried.taken {
            Some(taking) => Asked::Admitted(Pass::new(&self.inner, self.key, taking, tried.decision)),
            None => Asked::NotYet(tried.decision),
        }
    }

    fn refuse(&mut self, decision: Decision, reason: Reason) -> Refused {
        Refused { decision, reason }
    }
}
