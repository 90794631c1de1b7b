//! Pending decision of cluster-wide rules by the store.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::waiters::WaiterSlot;
use super::{StoreQuery, decide_from_leases};
use crate::clock::{ClockHandle, Sleep};
use crate::decision::Verdict;
use crate::sluice::counts::WaitTimer;
use crate::sluice::evaluate::evaluate_in_turn;
use crate::sluice::outcome::Outcome;
use crate::sluice::pipeline::DecisionMode;
use crate::store::{AcquireCall, StoreReply};
use crate::time::Timestamp;

/// Poll interval for permits: the store does not know when they are released.
const PERMIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Queries the store and, if the rules allow waiting, retries later. Dropping it before completion cancels the
/// request.
pub(in crate::sluice) struct PendingCheck {
    outcome: Option<Outcome>,
    queries: Vec<StoreQuery>,
    replies: Vec<QueryState>,
    mode: DecisionMode,
    clock: ClockHandle,
    retry_wait: Option<RetryWait>,
}

/// State of a query.
enum QueryState {
    /// Not sent this time: decided locally.
    Skipped,
    Replied(StoreReply),
    InFlight(Pin<Box<dyn Future<Output = StoreReply> + Send>>),
}

/// Wait of a refused request before it is retried.
struct RetryWait {
    until: Timestamp,
    sleep: Option<Sleep>,
    /// Slots among the waiters, one for each refusing rule.
    _slots: Vec<WaiterSlot>,
    /// Timers of the wait for each of these rules, started once the request really waits.
    timers: Vec<WaitTimer>,
}

impl PendingCheck {
    /// Starts to query the store for a request that everything else has admitted.
    pub(in crate::sluice) fn begin(
        outcome: Outcome,
        queries: Vec<StoreQuery>,
        mode: DecisionMode,
        clock: &ClockHandle,
    ) -> Self {
        let clock = clock.clone();
        let mut pending = Self { outcome: Some(outcome), queries, replies: Vec::new(), mode, clock, retry_wait: None };
        pending.send_queries();
        pending
    }

    /// Waits, if allowed, for a request that a cluster-wide rule has refused immediately.
    pub(in crate::sluice) fn after_refusal(outcome: Outcome, queries: Vec<StoreQuery>, clock: &ClockHandle) -> Self {
        let (mode, clock) = (DecisionMode::Wait, clock.clone());
        Self { outcome: Some(outcome), queries, replies: Vec::new(), mode, clock, retry_wait: None }
    }

    fn send_queries(&mut self) {
        let Some(outcome) = &self.outcome else { return };
        let Some(store) = outcome.snapshot.store() else { return };
        let send = |query: &StoreQuery| match query.is_undecided(outcome).then(|| store.acquire(query.requests.clone()))
        {
            None => QueryState::Skipped,
            Some(AcquireCall::Ready(reply)) => QueryState::Replied(reply),
            Some(AcquireCall::Pending(future)) => QueryState::InFlight(future),
        };
        self.replies = self.queries.iter().map(send).collect();
    }

    /// Starts the wait of a refused request if it can be admitted in time. Returns the first wait.
    fn begin_retry_wait(&mut self, outcome: &Outcome, now: Timestamp) -> Option<Duration> {
        if self.mode != DecisionMode::Wait || !outcome.may_wait() {
            return None;
        }
        let wait = match outcome.verdict {
            Verdict::Denied { retry_after } => retry_after.unwrap_or(PERMIT_POLL_INTERVAL),
            Verdict::Allowed | Verdict::Wait(_) | Verdict::Never => return None,
        };
        if self.retry_wait.is_none() {
            let until = now + outcome.max_wait()?;
            let slots = outcome.take_waiter_slots()?;
            self.retry_wait = Some(RetryWait { until, sleep: None, _slots: slots, timers: Vec::new() });
        }
        (now + wait <= self.retry_wait.as_ref()?.until).then_some(wait)
    }
}

impl Future for PendingCheck {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if let Some(RetryWait { sleep: Some(sleep), .. }) = &mut this.retry_wait {
                ready!(Pin::new(&mut *sleep).poll(context));
            }
            if let Some(RetryWait { sleep, .. }) = &mut this.retry_wait
                && sleep.take().is_some()
                && let Some(outcome) = &mut this.outcome
            {
                let now = this.clock.now();
                outcome.store_permits.clear();
                evaluate_in_turn(outcome, now, DecisionMode::Wait);
                if decide_from_leases(outcome, now) {
                    this.send_queries();
                }
            }
            ready!(poll_replies(&mut this.replies, context));
            // Polled after completion: never resolves again.
            let Some(mut outcome) = this.outcome.take() else { return Poll::Pending };
            let now = this.clock.now();
            let replies: Vec<QueryState> = this.replies.drain(..).collect();
            if !replies.is_empty() {
                for (query, reply) in this.queries.iter().zip(replies) {
                    if let QueryState::Replied(reply) = reply {
                        outcome.apply_reply(&query.checks, reply, now);
                    }
                }
                outcome.conclude_cluster();
            }
            let wait = if outcome.is_admitted() { None } else { this.begin_retry_wait(&outcome, now) };
            let Some(wait) = wait else {
                this.retry_wait = None;
                return Poll::Ready(outcome);
            };
            if let Some(waiting) = &mut this.retry_wait {
                if waiting.timers.is_empty() {
                    waiting.timers = outcome.start_cluster_wait_timers(now, &this.clock);
                }
                waiting.sleep = Some(this.clock.sleep(wait));
            }
            this.outcome = Some(outcome);
        }
    }
}

/// Polls all queries concurrently: some are only sent once they are polled.
fn poll_replies(replies: &mut [QueryState], context: &mut Context<'_>) -> Poll<()> {
    let mut ready = Poll::Ready(());
    for state in replies {
        if let QueryState::InFlight(future) = state {
            match future.as_mut().poll(context) {
                Poll::Ready(reply) => *state = QueryState::Replied(reply),
                Poll::Pending => ready = Poll::Pending,
            }
        }
    }
    ready
}

impl Drop for PendingCheck {
    fn drop(&mut self) {
        if let Some(mut outcome) = self.outcome.take() {
            let now = self.clock.now();
            // Replies that were received but not applied have consumed quota and must be given back. Queries in flight are
            // dropped, and the store cancels them.
            for (query, reply) in self.queries.iter().zip(self.replies.drain(..)) {
                if let QueryState::Replied(reply @ Ok(_)) = reply {
                    outcome.apply_reply(&query.checks, reply, now);
                }
            }
            outcome.give_back();
        }
    }
}

impl Outcome {
    /// Starts wait timers for the refusing cluster-wide rules.
    fn start_cluster_wait_timers(&self, now: Timestamp, clock: &ClockHandle) -> Vec<WaitTimer> {
        let refusing = self.checks.iter().filter(|check| !check.shadow && check.refuses());
        let refusing = refusing.filter(|check| self.snapshot.state(check.rule).cluster.is_some());
        refusing.map(|check| self.start_wait_timer(check.rule, now, clock)).collect()
    }

    /// Takes a waiter slot for each refusing cluster-wide rule. `None` if too many requests are waiting already.
    fn take_waiter_slots(&self) -> Option<Vec<WaiterSlot>> {
        let refusing = self.checks.iter().filter(|check| !check.shadow && check.refuses());
        let mut slots = Vec::new();
        for check in refusing {
            let rule = &self.snapshot.rules()[check.rule];
            let (Some(cluster), Some(queue)) = (&self.snapshot.state(check.rule).cluster, rule.on_limit.queue) else {
                continue;
            };
            slots.push(cluster.waiting.join(check.key, queue.max_waiting)?);
        }
        Some(slots)
    }
}
