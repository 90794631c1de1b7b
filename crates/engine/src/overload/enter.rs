//! Admission future of an overload gate.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use super::core::{AdmitResult, WaitResult};
use super::{Gate, GateClosed, GatePermit};
use crate::clock::Sleep;
use crate::rule::Priority;
use crate::time::Timestamp;

/// Handle of a request that waits at a gate.
pub(super) struct GateWaiter(Mutex<GateWaiterState>);

#[derive(Default)]
struct GateWaiterState {
    result: Option<(WaitResult, Timestamp)>,
    waker: Option<Waker>,
}

impl GateWaiter {
    /// Sets the result. Call it with the gate locked: a request that is no longer queued must have a result.
    pub(super) fn resolve(&self, result: WaitResult, now: Timestamp) {
        self.0.lock().result = Some((result, now));
    }

    /// Wakes the waiting task. Call it with the gate unlocked: some wakers run the task directly.
    pub(super) fn wake(&self) {
        let waker = self.0.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Final result, once it is decided.
    fn result(&self, gate: &Gate) -> Option<Result<GatePermit, GateClosed>> {
        let (result, at) = self.0.lock().result?;
        Some(match result {
            WaitResult::Admitted(_) => Ok(gate.permit(at)),
            WaitResult::Dropped => Err(GateClosed { retry_after: None }),
        })
    }
}

/// Admission of a request at a gate: decided or waiting. Dropping it leaves the queue.
#[must_use = "futures do nothing unless polled"]
pub struct Enter {
    gate: Gate,
    state: EnterState,
}

enum EnterState {
    Decided(Option<Result<GatePermit, GateClosed>>),
    Waiting { waiter: Arc<GateWaiter>, ticket: u64, sleep: Sleep },
}

impl Enter {
    pub(super) fn new(gate: &Gate, class: Priority) -> Self {
        let shared = &gate.shared;
        let now = shared.clock.now();
        let waiter = Arc::new(GateWaiter(Mutex::default()));
        let mut core = shared.core.lock();
        let max_wait = core.limits().queue.max_wait;
        let admit_result = core.try_admit(now, class, Some(Arc::clone(&waiter)));
        if let AdmitResult::Wait { evicted: Some(other), .. } = &admit_result {
            other.resolve(WaitResult::Dropped, now);
        }
        drop(core);
        let state = match admit_result {
            AdmitResult::Enter => EnterState::Decided(Some(Ok(gate.permit(now)))),
            AdmitResult::Refused(retry_after) => EnterState::Decided(Some(Err(GateClosed { retry_after }))),
            AdmitResult::Wait { ticket, evicted } => {
                if let Some(other) = evicted {
                    other.wake();
                }
                // One nanosecond more: a request that has waited for exactly the maximum may still be admitted.
                let until = now + max_wait + Duration::from_nanos(1);
                EnterState::Waiting { waiter, ticket, sleep: shared.clock.sleep_until(until) }
            }
        };
        Self { gate: gate.clone(), state }
    }

    /// Takes the result if it is decided. The future then never resolves.
    pub fn take(&mut self) -> Option<Result<GatePermit, GateClosed>> {
        match &mut self.state {
            EnterState::Decided(decided) => decided.take(),
            EnterState::Waiting { .. } => None,
        }
    }
}

impl Future for Enter {
    type Output = Result<GatePermit, GateClosed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let EnterState::Waiting { waiter, ticket, sleep } = &mut this.state else {
            // Polled after completion: never resolves again.
            return this.take().map_or(Poll::Pending, Poll::Ready);
        };
        waiter.0.lock().waker = Some(context.waker().clone());
        let decided = match waiter.result(&this.gate) {
            Some(decided) => decided,
            None if Pin::new(sleep).poll(context).is_pending() => return Poll::Pending,
            None => {
                let shared = &this.gate.shared;
                let waited = shared.core.lock().leave(shared.clock.now(), *ticket);
                let expired = Err(GateClosed { retry_after: None });
                // A request that is no longer queued has a result by now.
                if waited { expired } else { waiter.result(&this.gate).unwrap_or(expired) }
            }
        };
        this.state = EnterState::Decided(None);
        Poll::Ready(decided)
    }
}

impl Drop for Enter {
    fn drop(&mut self) {
        let EnterState::Waiting { waiter, ticket, .. } = &self.state else { return };
        let shared = &self.gate.shared;
        let waited = shared.core.lock().leave(shared.clock.now(), *ticket);
        // Admitted but dropped before it was polled: free the slot.
        if !waited && let Some(Ok(permit)) = waiter.result(&self.gate) {
            permit.give_back();
        }
    }
}

impl fmt::Debug for Enter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enter")
            .field("waits", &matches!(self.state, EnterState::Waiting { .. }))
            .finish_non_exhaustive()
    }
}
