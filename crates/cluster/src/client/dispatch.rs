//! Dispatches queued items as batched calls and drives each call to completion.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::{sleep, sleep_until, timeout_at};

use super::batch::Batch;
use super::state::{CallWaiter, QueuedCall, StoreClientState};
use crate::error::{CallError, StoreError, StoreErrorKind};
use crate::health::Counters;

/// Maximum items per call.
const MAX_BATCH_ITEMS: usize = 128;
/// Retry delay while a slot is migrating.
const MIGRATION_RETRY_DELAY: Duration = Duration::from_millis(2);
/// Time past its deadline after which an unanswered call marks the whole store as silent.
const STALL_TIMEOUT: Duration = Duration::from_millis(250);
/// Time after that for which a late reply is still awaited, to undo it.
const LATE_REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// Each item with its result.
type ItemReplies<B> = Vec<(<B as Batch>::Item, Result<<B as Batch>::Reply, StoreError>)>;

impl<B: Batch> StoreClientState<B> {
    /// The dispatcher: the client's main task, runs until dropped.
    pub(super) async fn dispatch_loop(self: Arc<Self>) {
        loop {
            self.dispatch_queued();
            self.wake.notified().await;
        }
    }

    /// Sends queued items as the concurrency limit allows.
    pub(super) fn dispatch_queued(&self) {
        if self.is_degraded() {
            self.fail_queued(&CallError::Degraded);
            return;
        }
        loop {
            let waiting = {
                let mut queue = self.queue.lock();
                let needed = queue.concurrency.min_batch(queue.in_flight);
                if needed.is_none_or(|needed| queue.calls.len() < needed) {
                    // At the limit, the next call that ends dispatches again; no other wakeup is needed.
                    queue.wake_threshold = needed;
                    return;
                }
                queue.in_flight += 1;
                queue.calls.take(MAX_BATCH_ITEMS)
            };
            let (items, waiters) = self.filter_live(waiting);
            match self.this.upgrade() {
                Some(shared) if !items.is_empty() => {
                    self.runtime.spawn(async move { shared.run_call(items, waiters).await });
                }
                _ => self.queue.lock().in_flight -= 1,
            }
        }
    }

    /// Drops items with a cancelled caller or a passed deadline, before anything is taken for them.
    fn filter_live(&self, waiting: VecDeque<QueuedCall<B>>) -> (Vec<B::Item>, Vec<CallWaiter<B>>) {
        let now = Instant::now();
        let (mut items, mut waiters) = (Vec::with_capacity(waiting.len()), Vec::with_capacity(waiting.len()));
        for QueuedCall { item, waiter } in waiting {
            if waiter.sender.is_closed() {
                continue;
            }
            if waiter.deadline <= now {
                Counters::add(&self.counters.timeouts, 1);
                // The caller may be gone.
                drop(waiter.sender.send(Err(CallError::Deadline)));
                continue;
            }
            items.push(item);
            waiters.push(waiter);
        }
        (items, waiters)
    }

    /// Runs one call until its callers have their replies and nothing is left to undo.
    async fn run_call(self: Arc<Self>, items: Vec<B::Item>, waiters: Vec<CallWaiter<B>>) {
        let mut slot = InFlightSlot { state: &self, active: true };
        let Some(last) = waiters.iter().map(|waiter| waiter.deadline).max() else { return };
        Counters::add(&self.counters.calls, 1);
        let sent = Instant::now();
        let mut reply = pin!(self.execute(items, last));
        let mut waiters = CallWaiters::new(waiters);

        let in_time = loop {
            let Some(next) = waiters.next_deadline() else { break None };
            tokio::select! {
                biased;
                reply = &mut reply => break Some(reply),
                () = sleep_until(next.into()) => {
                    Counters::add(&self.counters.timeouts, waiters.expire(Instant::now()));
                }
            }
        };
        match in_time {
            Some(replies) => {
                self.record_outcome(&replies, sent);
                self.queue.lock().concurrency.record_round_trip(sent.elapsed());
                slot.release();
                self.deliver(replies, waiters);
            }
            None => {
                // The slot is freed for others: this call is only awaited to undo it.
                let error = StoreError::new(StoreErrorKind::Timeout, "no reply within the timeout");
                self.record_failure(&error);
                slot.release();
                let mut late_reply = timeout_at((last + STALL_TIMEOUT).into(), &mut reply).await;
                if late_reply.is_err() {
                    self.record_silence(sent, &error);
                    late_reply = timeout_at((last + STALL_TIMEOUT + LATE_REPLY_TIMEOUT).into(), &mut reply).await;
                }
                if let Ok(replies) = late_reply {
                    self.deliver(replies, waiters);
                }
            }
        }
    }

    /// Records the outcome of a call by its first item: items of one call nearly always share it.
    fn record_outcome(&self, replies: &ItemReplies<B>, sent: Instant) {
        match replies.first() {
            Some((_, Err(error))) => self.record_failure(error),
            Some((_, Ok(_))) | None => self.record_success(sent),
        }
    }

    /// Executes these items: in one call, or one call per item if their keys are split by a slot
    /// migration.
    async fn execute(&self, items: Vec<B::Item>, until: Instant) -> ItemReplies<B> {
        let replies: Vec<_> = match self.execute_batch(&items, until).await {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(error) if error.kind == StoreErrorKind::TryAgain && items.len() > 1 => {
                join_all(items.iter().map(|item| self.execute_one(item, until))).await
            }
            Err(error) => items.iter().map(|_| Err(error.clone())).collect(),
        };
        items.into_iter().zip(replies).collect()
    }

    async fn execute_one(&self, item: &B::Item, until: Instant) -> Result<B::Reply, StoreError> {
        loop {
            match self.execute_batch(std::slice::from_ref(item), until).await {
                // Its own keys are split by the migration; that is short.
                Err(error) if error.kind == StoreErrorKind::TryAgain && Instant::now() < until => {
                    sleep(MIGRATION_RETRY_DELAY).await;
                }
                Err(error) => return Err(error),
                Ok(mut replies) => return replies.pop().ok_or_else(|| StoreError::invalid_reply("no reply")),
            }
        }
    }

    async fn execute_batch(&self, items: &[B::Item], until: Instant) -> Result<Vec<B::Reply>, StoreError> {
        let reply = self.connection.call(&self.batch.encode(items), until).await?;
        let replies = self.batch.decode(reply, items)?;
        if replies.len() != items.len() {
            let detail = format!("{} replies to {} requests", replies.len(), items.len());
            return Err(StoreError::invalid_reply(detail));
        }
        Ok(replies)
    }

    /// Sends replies to the callers; undelivered replies are undone.
    fn deliver(&self, replies: ItemReplies<B>, waiters: CallWaiters<B>) {
        let mut undelivered = Vec::new();
        for ((item, reply), waiter) in replies.into_iter().zip(waiters.waiters) {
            let replies = reply.map(|reply| (item, reply)).map_err(CallError::Store);
            let undelivered_reply = match waiter {
                None => replies,
                Some(waiter) => match waiter.sender.send(replies) {
                    Ok(()) => continue,
                    Err(undelivered_reply) => undelivered_reply,
                },
            };
            // Failures need not be delivered to a caller that is gone.
            undelivered.extend(undelivered_reply);
        }
        Counters::add(&self.counters.late_replies, undelivered.len() as u64);
        self.undo_undelivered(undelivered);
    }

    /// Undoes these replies in the background. Callable from any thread.
    pub(super) fn undo_undelivered(&self, undelivered: Vec<(B::Item, B::Reply)>) {
        if undelivered.is_empty() {
            return;
        }
        let (Some(invocation), Some(shared)) = (self.batch.undo(&undelivered), self.this.upgrade()) else { return };
        self.undos_in_flight.fetch_add(1, Ordering::Relaxed);
        self.runtime.spawn(async move {
            let until = Instant::now() + LATE_REPLY_TIMEOUT;
            // If it fails, the quota stays taken until it refills or expires: too little is admitted, never too much.
            if let Ok(Err(error)) = timeout_at(until.into(), shared.connection.call(&invocation, until)).await {
                shared.counters.record_failure(&error);
            }
            shared.undos_in_flight.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// In-flight slot of a call. Released once, also if the call panics.
struct InFlightSlot<'a, B: Batch> {
    state: &'a StoreClientState<B>,
    active: bool,
}

impl<B: Batch> InFlightSlot<'_, B> {
    fn release(&mut self) {
        if std::mem::take(&mut self.active) {
            self.state.queue.lock().in_flight -= 1;
            self.state.dispatch_queued();
        }
    }
}

impl<B: Batch> Drop for InFlightSlot<'_, B> {
    fn drop(&mut self) {
        self.release();
    }
}

/// The callers of one call: first those already timed out, then those still waiting.
struct CallWaiters<B: Batch> {
    waiters: Vec<Option<CallWaiter<B>>>,
    expired: usize,
}

impl<B: Batch> CallWaiters<B> {
    fn new(waiters: Vec<CallWaiter<B>>) -> Self {
        Self { waiters: waiters.into_iter().map(Some).collect(), expired: 0 }
    }

    /// The earliest deadline of the waiting callers. `None` if none waits.
    fn next_deadline(&self) -> Option<Instant> {
        self.waiters.get(self.expired)?.as_ref().map(|waiter| waiter.deadline)
    }

    /// Fails callers past their deadline. Returns their number.
    fn expire(&mut self, now: Instant) -> u64 {
        let mut count = 0;
        // Ordered by deadline: all callers have the same timeout.
        while self.next_deadline().is_some_and(|deadline| deadline <= now) {
            if let Some(waiter) = self.waiters.get_mut(self.expired).and_then(Option::take) {
                // The caller may be gone.
                drop(waiter.sender.send(Err(CallError::Deadline)));
            }
            self.expired += 1;
            count += 1;
        }
        count
    }
}
