//! Acquiring a permit with waiting: a FIFO wait queue per key.
//!
//! Queued callers of one key are admitted first in, first out, each at the exact time the limits allow. No
//! caller bypasses the queue: a call that does not wait is refused while others are queued. A caller that
//! would miss its deadline is refused immediately, not after the deadline. Dropping the future leaves the
//! queue, and all callers behind it move up.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::waiter::{AcquireResult, QueueWaiter, QueuedAcquire};
use super::{AcquireError, LimiterCore, Permit, RefusalReason};
use crate::algorithm::AdmitMode;
use crate::decision::Decision;
use crate::table::KeyHash;
use crate::time::Timestamp;
use crate::wait::block_on;

/// Request for a permit. Await it, or block on it with [`Acquire::blocking`].
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
    inner: Arc<LimiterCore>,
    key: KeyHash,
    cost: u64,
    within: Option<Duration>,
    even_if_full: bool,
}

impl Acquire {
    pub(super) fn new(inner: Arc<LimiterCore>, key: KeyHash) -> Self {
        Self { inner, key, cost: 1, within: None, even_if_full: false }
    }

    /// Sets the cost; 1 by default.
    pub fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Sets the maximum wait; unbounded by default.
    pub fn within(mut self, max_wait: Duration) -> Self {
        self.within = Some(max_wait);
        self
    }

    /// Joins the queue even if it is full. For callers bounded elsewhere that cannot wait
    /// in another queue.
    pub fn even_if_full(mut self) -> Self {
        self.even_if_full = true;
        self
    }

    /// Blocks this thread until the permit is acquired or refused.
    pub fn blocking(self) -> Result<Permit, AcquireError> {
        block_on(self.into_future())
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Permit, AcquireError>;
    type IntoFuture = AcquireFuture;

    fn into_future(self) -> AcquireFuture {
        let within = self.within;
        AcquireFuture(QueueWaiter::new(self, within))
    }
}

/// Future of an [`Acquire`].
#[must_use = "futures do nothing unless polled"]
pub struct AcquireFuture(QueueWaiter<Acquire>);

impl Future for AcquireFuture {
    type Output = Result<Permit, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl QueuedAcquire for Acquire {
    type Permit = Permit;
    type Refusal = AcquireError;

    fn limiter(&self) -> &Arc<LimiterCore> {
        &self.inner
    }

    fn key(&self) -> KeyHash {
        self.key
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn ignores_capacity(&self) -> bool {
        self.even_if_full
    }

    fn try_acquire(&mut self, now: Timestamp, _waker: &Waker) -> AcquireResult<Permit> {
        let result = self.inner.take(self.key, now, self.cost, AdmitMode::Immediate);
        match result.charge {
            Some(charge) => AcquireResult::Admitted(Permit::new(&self.inner, self.key, charge, result.decision)),
            None => AcquireResult::NotYet(result.decision),
        }
    }

    fn refuse(&mut self, decision: Decision, reason: RefusalReason) -> AcquireError {
        AcquireError { decision, reason }
    }
}
