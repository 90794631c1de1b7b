//! The driver: one thread of this process that talks to the store for all others.
//!
//! ```text
//!  any thread                        the driver's thread (current-thread runtime)
//!  ask(item) --> line (bounded) ---> gather: all that waits becomes one call, few calls under way
//!     ^                                 | see through: one timer per call, answers, late ones undone
//!     +----------- oneshot <------------+ heartbeat: every second; who else shares the store
//!                                         recovery: connect, probe with jitter, close the breaker
//! ```
//!
//! Nothing here waits for the store but that thread: asks of a store that fails are refused at once until a
//! probe has passed, and one that is slow costs each of them its deadline at most.

mod asking;
mod batch;
mod breaker;
mod calls;
mod census;
mod heartbeat;
mod jitter;
mod lanes;
mod pace;
mod recovery;
mod shared;
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

pub(crate) use self::asking::Asking;
pub(crate) use self::batch::Batch;
pub(crate) use self::jitter::random;
use self::shared::Shared;
use crate::error::{Failure, StartError, StoreError, StoreErrorKind};
use crate::health::{Health, SharedCounters};
use crate::invocation::{Invocation, Script};
use crate::link::Link;
use crate::options::StoreOptions;

/// How long calls under way may take to end when the driver is closed.
const FAREWELL: Duration = Duration::from_millis(500);
/// How often it is looked whether they have.
const GLANCE: Duration = Duration::from_millis(1);

/// A handle to the driver. With the last one, the driver ends.
pub(crate) struct Driver<B: Batch> {
    shared: Arc<Shared<B>>,
    /// Absent in handles for background work, which must not keep its own driver alive.
    life: Option<Arc<Life<B>>>,
}

impl<B: Batch> Clone for Driver<B> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), life: self.life.clone() }
    }
}

/// Ends the driver when it is dropped.
struct Life<B: Batch>(Arc<Shared<B>>);

impl<B: Batch> Drop for Life<B> {
    fn drop(&mut self) {
        self.0.close_line();
        self.0.closing.notify_one();
    }
}

/// Ends a task when it is dropped.
struct EndsWithThis(JoinHandle<()>);

impl Drop for EndsWithThis {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Says that the thread has ended, however it did.
struct Ended<B: Batch>(Arc<Shared<B>>);

impl<B: Batch> Drop for Ended<B> {
    fn drop(&mut self) {
        self.0.close_line();
        self.0.refuse_all(&Failure::Closed);
        self.0.ended.send_replace(true);
    }
}

impl<B: Batch> Driver<B> {
    /// Starts the driver's thread. The store may be down: it is connected to in the background.
    pub(crate) fn start(
        options: &StoreOptions,
        batch: B,
        mut scripts: Vec<&'static Script>,
    ) -> Result<Self, StartError> {
        let counters = SharedCounters::default();
        scripts.extend(heartbeat::scripts());
        let link = Link::new(options, scripts, counters.clone())?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let names = heartbeat::names(&options.key_prefix);
        let shared = Shared::new(batch, link, counters, runtime.handle().clone(), options.deadline, names);
        let running = shared.clone();
        thread::Builder::new().name("sluicegate-store".to_owned()).spawn(move || {
            let ended = Ended(running.clone());
            running.run(&runtime);
            // What still runs on it is dropped with it; a name that is still being looked up is not waited for.
            runtime.shutdown_background();
            drop(ended);
        })?;
        let life = Some(Arc::new(Life(shared.clone())));
        Ok(Self { shared, life })
    }

    /// Asks the store. Never waits; the answer or a failure is there before the deadline has long passed.
    pub(crate) fn ask(&self, item: B::Item) -> Asking<B> {
        self.shared.ask(item)
    }

    /// Calls one script by itself.
    pub(crate) fn call(
        &self,
        invocation: Invocation,
        deadline: Duration,
    ) -> impl Future<Output = Result<Value, Failure>> + Send + use<B> {
        let (answer, heard) = oneshot::channel();
        let (shared, sent) = (self.shared.clone(), Instant::now());
        let until = sent + deadline;
        if shared.is_degraded() {
            drop(answer.send(Err(Failure::Degraded)));
        } else {
            self.spawn(async move {
                let reply = timeout_at(until.into(), shared.link.call(&invocation, until)).await;
                let heard = match reply {
                    Ok(Ok(value)) => {
                        shared.passed(sent);
                        Ok(value)
                    }
                    Ok(Err(error)) => {
                        shared.failed(&error);
                        Err(Failure::Store(error))
                    }
                    Err(_) => {
                        shared.failed(&StoreError::new(StoreErrorKind::Silent, "no answer within the deadline"));
                        Err(Failure::Deadline)
                    }
                };
                // Who is gone need not be told.
                drop(answer.send(heard));
            });
        }
        async move { heard.await.unwrap_or(Err(Failure::Closed)) }
    }

    /// What comes of it within the deadline of a decision that is made now; `None` if nothing does. For waits
    /// that no call of their own ends.
    pub(crate) async fn in_time<T>(&self, waiting: impl Future<Output = T>) -> Option<T> {
        let until = Instant::now() + self.shared.deadline;
        let (alarm, passed) = oneshot::channel::<()>();
        // Ended with this wait, or with the driver; either way the alarm is dropped.
        let _ringing = EndsWithThis(self.shared.runtime.spawn(async move {
            sleep_until(until.into()).await;
            drop(alarm);
        }));
        tokio::select! {
            biased;
            heard = waiting => Some(heard),
            _ = passed => None,
        }
    }

    /// Runs background work on the driver's thread. It is dropped when the driver ends; work that holds a
    /// handle holds one from [`background`](Self::background).
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared.runtime.spawn(work);
    }

    /// A handle that does not keep the driver alive.
    pub(crate) fn background(&self) -> Self {
        Self { shared: self.shared.clone(), life: None }
    }

    /// Whether an ask would be refused now because the store fails.
    pub(crate) fn now_degraded(&self) -> bool {
        self.shared.is_degraded()
    }

    /// How many processes share the store, this one included, as last known.
    pub(crate) fn live_nodes(&self) -> Option<u32> {
        self.shared.counters.live_nodes()
    }

    /// How the store is doing.
    pub(crate) fn health(&self) -> Health {
        self.shared.health()
    }

    /// Counters that other parts add to.
    pub(crate) fn counters(&self) -> &SharedCounters {
        &self.shared.counters
    }

    /// Refuses new asks, lets those under way end, takes this process off the list of live ones, and ends the
    /// thread: within about half a second, whatever the store does.
    pub(crate) async fn close(&self) {
        self.shared.close_line();
        self.shared.closing.notify_one();
        // The sender lives in what this handle holds.
        drop(self.shared.ended.subscribe().wait_for(|ended| *ended).await);
    }
}

impl<B: Batch> Shared<B> {
    fn run(self: Arc<Self>, runtime: &Runtime) {
        runtime.block_on(async {
            let beating = self.clone();
            let tasks = [
                tokio::spawn(self.clone().gather()),
                tokio::spawn(self.clone().recover()),
                tokio::spawn(async move { beating.beat().await }),
            ];
            self.closing.notified().await;
            let until = Instant::now() + FAREWELL;
            while self.is_busy() && Instant::now() < until {
                sleep(GLANCE).await;
            }
            self.refuse_all(&Failure::Closed);
            if !self.is_degraded() {
                self.leave(until).await;
            }
            for task in tasks {
                task.abort();
            }
        });
    }

    fn is_busy(&self) -> bool {
        let line = self.line.lock();
        line.in_flight > 0 || line.lanes.len() > 0 || self.returning.load(Ordering::Relaxed) > 0
    }

    fn close_line(&self) {
        self.line.lock().closed = true;
    }
}
