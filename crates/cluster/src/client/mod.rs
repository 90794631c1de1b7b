//! Store client: one background thread of this process that talks to the store for all others.
//!
//! ```text
//!  any thread                          the client's thread (current-thread runtime)
//!  submit(item) --> queue (bounded) -> dispatch: queued items become one call, few calls in flight
//!     ^                                   | run_call: one timer per call, replies, late ones undone
//!     +----------- oneshot <--------------+ heartbeat: every second; counts the live processes
//!                                           recovery: connect, probe with jitter, close the breaker
//! ```
//!
//! Only that thread waits for the store: while the store fails, calls are refused at once until a probe
//! succeeds; a slow store costs each caller at most its deadline.

mod batch;
mod breaker;
mod concurrency;
mod dispatch;
mod heartbeat;
mod jitter;
mod node_count;
mod pending;
mod recovery;
mod slot_queues;
mod state;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout_at};

pub(crate) use self::batch::Batch;
pub(crate) use self::jitter::random;
pub(crate) use self::pending::PendingReply;
use self::state::StoreClientState;
use crate::connection::StoreConnection;
use crate::error::{CallError, StartError, StoreError, StoreErrorKind};
use crate::health::{Health, SharedCounters};
use crate::invocation::{Invocation, Script};
use crate::options::StoreOptions;

/// Time that calls in flight have to finish on close.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Poll interval while waiting for them.
const CLOSE_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Handle to the store client. The thread ends with the last handle.
pub(crate) struct StoreClient<B: Batch> {
    state: Arc<StoreClientState<B>>,
    /// Absent in handles for background work, which must not keep its own client alive.
    shutdown_guard: Option<Arc<ShutdownGuard<B>>>,
}

impl<B: Batch> Clone for StoreClient<B> {
    fn clone(&self) -> Self {
        Self { state: self.state.clone(), shutdown_guard: self.shutdown_guard.clone() }
    }
}

/// Shuts the client down on drop.
struct ShutdownGuard<B: Batch>(Arc<StoreClientState<B>>);

impl<B: Batch> Drop for ShutdownGuard<B> {
    fn drop(&mut self) {
        self.0.close_queue();
        self.0.closing.notify_one();
    }
}

/// Aborts a task on drop.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Signals that the thread has ended, also after a panic.
struct ExitGuard<B: Batch>(Arc<StoreClientState<B>>);

impl<B: Batch> Drop for ExitGuard<B> {
    fn drop(&mut self) {
        self.0.close_queue();
        self.0.fail_queued(&CallError::Closed);
        self.0.ended.send_replace(true);
    }
}

impl<B: Batch> StoreClient<B> {
    /// Starts the client's thread. The store may be down: the connection is made in the background.
    pub(crate) fn start(
        options: &StoreOptions,
        batch: B,
        mut scripts: Vec<&'static Script>,
    ) -> Result<Self, StartError> {
        let counters = SharedCounters::default();
        scripts.extend(heartbeat::scripts());
        let connection = StoreConnection::new(options, scripts, counters.clone())?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let names = heartbeat::node_key_and_id(&options.key_prefix);
        let shared =
            StoreClientState::new(batch, connection, counters, runtime.handle().clone(), options.deadline, names);
        let worker = shared.clone();
        thread::Builder::new().name("sluicegate-store".to_owned()).spawn(move || {
            let ended = ExitGuard(worker.clone());
            worker.run(&runtime);
            // Tasks still running are dropped with the runtime; a pending DNS lookup is not awaited.
            runtime.shutdown_background();
            drop(ended);
        })?;
        let shutdown_guard = Some(Arc::new(ShutdownGuard(shared.clone())));
        Ok(Self { state: shared, shutdown_guard })
    }

    /// Submits an item to the store. Never blocks; the reply or an error arrives at about the deadline or before.
    pub(crate) fn submit(&self, item: B::Item) -> PendingReply<B> {
        self.state.submit(item)
    }

    /// Calls a single script, outside of any batch.
    pub(crate) fn call(
        &self,
        invocation: Invocation,
        deadline: Duration,
    ) -> impl Future<Output = Result<Value, CallError>> + Send + use<B> {
        let (sender, reply) = oneshot::channel();
        let (shared, sent) = (self.state.clone(), Instant::now());
        let until = sent + deadline;
        if shared.is_degraded() {
            drop(sender.send(Err(CallError::Degraded)));
        } else {
            self.spawn(async move {
                let reply = timeout_at(until.into(), shared.connection.call(&invocation, until)).await;
                let reply = match reply {
                    Ok(Ok(value)) => {
                        shared.record_success(sent);
                        Ok(value)
                    }
                    Ok(Err(error)) => {
                        shared.record_failure(&error);
                        Err(CallError::Store(error))
                    }
                    Err(_) => {
                        shared.record_failure(&StoreError::new(StoreErrorKind::Timeout, "no reply within the timeout"));
                        Err(CallError::Deadline)
                    }
                };
                // The caller may be gone.
                drop(sender.send(reply));
            });
        }
        async move { reply.await.unwrap_or(Err(CallError::Closed)) }
    }

    /// Awaits a future for at most the decision deadline, starting now; `None` on timeout. For waits that no call
    /// of their own ends.
    pub(crate) async fn within_deadline<T>(&self, waiting: impl Future<Output = T>) -> Option<T> {
        let until = Instant::now() + self.state.deadline;
        let (timer, expired) = oneshot::channel::<()>();
        // Ends with this wait or with the client; either way the sender is dropped.
        let _timer_task = AbortOnDrop(self.state.runtime.spawn(async move {
            sleep_until(until.into()).await;
            drop(timer);
        }));
        tokio::select! {
            biased;
            reply = waiting => Some(reply),
            _ = expired => None,
        }
    }

    /// Runs background work on the client's thread. It is dropped when the client ends; work that holds a
    /// handle must take it from [`background`](Self::background).
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.state.runtime.spawn(work);
    }

    /// A handle that does not keep the client alive.
    pub(crate) fn background(&self) -> Self {
        Self { state: self.state.clone(), shutdown_guard: None }
    }

    /// True if the breaker is open and calls would be refused.
    pub(crate) fn is_degraded(&self) -> bool {
        self.state.is_degraded()
    }

    /// Number of processes that share the store, this one included, as last known.
    pub(crate) fn live_nodes(&self) -> Option<u32> {
        self.state.counters.live_nodes()
    }

    /// Health snapshot of the store.
    pub(crate) fn health(&self) -> Health {
        self.state.health()
    }

    /// Counters shared with other modules.
    pub(crate) fn counters(&self) -> &SharedCounters {
        &self.state.counters
    }

    /// Refuses new calls, lets calls in flight finish, deregisters this process and ends the
    /// thread: within about half a second, regardless of the store.
    pub(crate) async fn close(&self) {
        self.state.close_queue();
        self.state.closing.notify_one();
        // The sender lives in the state this handle holds.
        drop(self.state.ended.subscribe().wait_for(|ended| *ended).await);
    }
}

impl<B: Batch> StoreClientState<B> {
    fn run(self: Arc<Self>, runtime: &Runtime) {
        runtime.block_on(async {
            let heartbeat = self.clone();
            let tasks = [
                tokio::spawn(self.clone().dispatch_loop()),
                tokio::spawn(self.clone().recover()),
                tokio::spawn(async move { heartbeat.heartbeat_loop().await }),
            ];
            self.closing.notified().await;
            let until = Instant::now() + CLOSE_TIMEOUT;
            while self.is_busy() && Instant::now() < until {
                sleep(CLOSE_POLL_INTERVAL).await;
            }
            self.fail_queued(&CallError::Closed);
            if !self.is_degraded() {
                self.deregister(until).await;
            }
            for task in tasks {
                task.abort();
            }
        });
    }

    fn is_busy(&self) -> bool {
        let queue = self.queue.lock();
        queue.in_flight > 0 || queue.calls.len() > 0 || self.undos_in_flight.load(Ordering::Relaxed) > 0
    }

    fn close_queue(&self) {
        self.queue.lock().closed = true;
    }
}
