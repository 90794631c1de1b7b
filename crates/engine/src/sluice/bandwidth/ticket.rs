//! Wait for bandwidth.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Meters, grant};
use crate::decision::{Decision, Verdict};
use crate::limiter::{AcquireResult, QueueWaiter, QueuedAcquire};
use crate::limiter::{LimiterCore, RefusalReason, STATE_UNREACHABLE};
use crate::table::KeyHash;
use crate::time::Timestamp;

/// Wait for bandwidth. Resolves to the number of bytes that may pass now. Nothing is taken before that, and
/// dropping it leaves the queue.
#[must_use = "futures do nothing unless polled"]
pub struct ByteTicket(ByteTicketState);

enum ByteTicketState {
    Queued(QueueWaiter<QueuedTransfer>),
    Granted(u64),
    Done,
}

impl ByteTicket {
    pub(super) fn new(meters: &Meters, max_bytes: u64) -> Self {
        if meters.is_empty() || max_bytes == 0 {
            return Self(ByteTicketState::Granted(max_bytes));
        }
        Self(ByteTicketState::Queued(QueueWaiter::new(
            QueuedTransfer { meters: meters.clone(), max_bytes, meter_index: 0 },
            None,
        )))
    }
}

impl Future for ByteTicket {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let granted = match &mut self.0 {
            ByteTicketState::Granted(bytes) => *bytes,
            // Polled after completion: never resolves again.
            ByteTicketState::Done => return Poll::Pending,
            ByteTicketState::Queued(waiter) => match poll_queues(waiter, context) {
                Poll::Ready(bytes) => bytes,
                Poll::Pending => return Poll::Pending,
            },
        };
        self.0 = ByteTicketState::Done;
        Poll::Ready(granted)
    }
}

/// Waits in the queue of the meter with the longest wait, which may change in the meantime.
fn poll_queues(waiter: &mut QueueWaiter<QueuedTransfer>, context: &mut Context<'_>) -> Poll<u64> {
    for _ in 0..=waiter.acquire_mut().meters.0.len() {
        match Pin::new(&mut *waiter).poll(context) {
            Poll::Ready(Ok(bytes)) => return Poll::Ready(bytes),
            Poll::Ready(Err(at)) => {
                let QueuedTransfer { meters, max_bytes, .. } = waiter.acquire_mut();
                let transfer =
                    QueuedTransfer { meters: std::mem::take(meters), max_bytes: *max_bytes, meter_index: at };
                *waiter = QueueWaiter::new(transfer, None);
            }
            Poll::Pending => return Poll::Pending,
        }
    }
    // The slowest meter changed at every attempt: yield and retry.
    context.waker().wake_by_ref();
    Poll::Pending
}

/// Transfer in the queue of one of its meters.
struct QueuedTransfer {
    meters: Meters,
    max_bytes: u64,
    /// Index of that meter.
    meter_index: usize,
}

impl QueuedAcquire for QueuedTransfer {
    type Permit = u64;
    /// Index of the meter to wait for instead.
    type Refusal = usize;

    fn limiter(&self) -> &Arc<LimiterCore> {
        &self.meters.0[self.meter_index].pacer.limiter
    }

    fn key(&self) -> KeyHash {
        self.meters.0[self.meter_index].key
    }

    fn cost(&self) -> u64 {
        self.meters.min_grant(self.max_bytes)
    }

    /// Bodies cannot wait elsewhere, and the number of requests is bounded separately.
    fn ignores_capacity(&self) -> bool {
        true
    }

    fn try_acquire(&mut self, now: Timestamp, _waker: &Waker) -> AcquireResult<u64> {
        let bytes = self.cost();
        let granted = grant(&self.meters.0, now, bytes, bytes);
        if granted > 0 {
            return AcquireResult::Admitted(granted);
        }
        let (slowest, wait) = self.meters.slowest(now, bytes);
        let decision = Decision { verdict: Verdict::Denied { retry_after: Some(wait) }, ..STATE_UNREACHABLE };
        if slowest == self.meter_index { AcquireResult::NotYet(decision) } else { AcquireResult::Refused(decision) }
    }

    fn refuse(&mut self, _decision: Decision, _reason: RefusalReason) -> usize {
        let now = self.limiter().clock.now();
        self.meters.slowest(now, self.cost()).0
    }
}

impl std::fmt::Debug for ByteTicket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakingBytes").finish_non_exhaustive()
    }
}
