//! Accepts connections on one thread; drains them on shutdown.

use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::connection::{Connection, ConnectionServer};
use crate::listener::LimitedListener;
use parking_lot::Mutex;
use sluicegate_engine::clock::ClockHandle;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::busy_poll::{BusyPoller, PollingTask};

/// Shutdown mode of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Shutdown {
    /// Keep serving.
    #[default]
    Running,
    /// Another process continues on the same sockets and accepts the connections that are still queued there.
    HandOver,
    /// Stop for good: queued connections are rejected with a response.
    Close,
}

/// Connection counts of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DrainReport {
    /// Connections that were open when the shutdown began and finished by themselves.
    pub finished: usize,
    /// Connections that were aborted at the drain timeout.
    pub aborted: usize,
}

impl DrainReport {
    /// Adds two reports.
    #[must_use]
    pub const fn merge(self, other: Self) -> Self {
        Self { finished: self.finished + other.finished, aborted: self.aborted + other.aborted }
    }
}

/// Connection tasks of one thread. Clones share the same set.
#[derive(Clone, Debug)]
pub struct ConnectionTasks {
    tasks: Arc<Mutex<TaskSet>>,
    close_sender: watch::Sender<()>,
    /// Never read: each clone sees the change, however late the clone is made.
    close_receiver: watch::Receiver<()>,
    /// Busy poller that these tasks keep active.
    busy_poller: Option<Arc<BusyPoller>>,
}

impl Default for ConnectionTasks {
    fn default() -> Self {
        let (closing, closed) = watch::channel(());
        Self { tasks: Arc::default(), close_sender: closing, close_receiver: closed, busy_poller: None }
    }
}

#[derive(Debug, Default)]
struct TaskSet {
    tasks: JoinSet<TaskKind>,
    /// Connection tasks that finished since the last call of [`ConnectionTasks::take_finished`].
    finished: usize,
}

impl TaskSet {
    /// Ready once no task is left.
    fn poll_all_finished(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(finished_task) = ready!(self.tasks.poll_join_next(context)) {
            self.record(&finished_task);
        }
        Poll::Ready(())
    }

    /// Counts finished tasks without waiting.
    fn reap_finished(&mut self) {
        while let Some(finished_task) = self.tasks.try_join_next() {
            self.record(&finished_task);
        }
    }

    fn record(&mut self, finished_task: &Result<TaskKind, JoinError>) {
        self.finished += usize::from(!matches!(finished_task, Ok(TaskKind::Background)));
    }
}

/// Kind of a finished task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskKind {
    Connection,
    Background,
}

impl ConnectionTasks {
    /// Makes the current thread busy-poll for this long after each wakeup of a connection task, before it blocks.
    #[must_use]
    pub fn with_busy_poll(self, timeout: Duration) -> Self {
        Self { busy_poller: Some(BusyPoller::start(timeout)), ..self }
    }

    /// A receiver that changes when the thread starts to shut down.
    pub fn shutdown_signal(&self) -> watch::Receiver<()> {
        self.close_receiver.clone()
    }

    /// Spawns a connection task.
    pub fn spawn(&self, serving: impl Future<Output = ()> + Send + 'static) {
        match &self.busy_poller {
            Some(poller) => self.spawn_task(TaskKind::Connection, PollingTask::new(serving, poller)),
            None => self.spawn_task(TaskKind::Connection, serving),
        }
    }

    /// Spawns a background task. The drain waits for it, but does not count it as a connection.
    pub fn spawn_background(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.spawn_task(TaskKind::Background, future);
    }

    fn spawn_task(&self, kind: TaskKind, future: impl Future<Output = ()> + Send + 'static) {
        let mut task_set = self.tasks.lock();
        task_set.reap_finished();
        task_set.tasks.spawn(async move {
            future.await;
            kind
        });
    }

    /// Waits until all tasks have finished; returns the number of finished connections since the last call.
    async fn wait_all(&self) -> usize {
        std::future::poll_fn(|context| self.tasks.lock().poll_all_finished(context)).await;
        self.take_finished()
    }

    /// Returns and resets the number of finished connections.
    fn take_finished(&self) -> usize {
        let mut task_set = self.tasks.lock();
        task_set.reap_finished();
        std::mem::take(&mut task_set.finished)
    }

    /// Aborts all tasks; returns the number of aborted connections.
    async fn abort_all(&self) -> usize {
        self.tasks.lock().tasks.abort_all();
        self.wait_all().await
    }
}

/// Accepts connections from all listeners until shutdown, then waits until all connections have finished or the
/// drain timeout has passed.
///
/// `on_connection` is called with each connection and the value that belongs to its listener. It
/// [spawns](ConnectionTasks::spawn) the task that serves it; that task finishes its work once the receiver has
/// changed.
pub async fn serve_until<D, F>(
    listeners: Vec<(LimitedListener, D)>,
    tasks: &ConnectionTasks,
    mut shutdown: watch::Receiver<Shutdown>,
    drain_timeout: (Duration, &ClockHandle),
    on_connection: F,
) -> DrainReport
where
    D: Send + 'static,
    F: Fn(Connection, &D, &Arc<ConnectionServer>, &watch::Receiver<()>) + Clone + Send + 'static,
{
    let mut accepting = JoinSet::new();
    for (listener, context) in listeners {
        let (on_accept, closed) = (on_connection.clone(), tasks.shutdown_signal());
        let on_accept =
            move |connection, server: &Arc<ConnectionServer>| on_accept(connection, &context, server, &closed);
        accepting.spawn(accept_loop(listener, shutdown.clone(), on_accept));
    }
    // An error means that every sender is gone.
    drop(shutdown.wait_for(|stop| *stop != Shutdown::Running).await);
    // Connections that finished before the shutdown are not part of the report.
    tasks.take_finished();
    tasks.close_sender.send_replace(());
    let mut report = DrainReport::default();
    let mut left = async || {
        // Queued connections are still accepted until the listener has closed.
        while accepting.join_next().await.is_some() {}
        report.finished += tasks.wait_all().await;
    };
    let (timeout, clock) = drain_timeout;
    tokio::select! {
        biased;
        () = left() => {}
        () = clock.sleep(timeout) => {}
    }
    report.finished += tasks.take_finished();
    report.aborted = tasks.abort_all().await;
    report
}

async fn accept_loop(
    mut listener: LimitedListener,
    mut stop: watch::Receiver<Shutdown>,
    on_accept: impl Fn(Connection, &Arc<ConnectionServer>),
) {
    let server = Arc::new(listener.connection_server());
    let stopped = loop {
        tokio::select! {
            biased;
            stopped = stop.wait_for(|stop| *stop != Shutdown::Running) => break stopped.map_or(Shutdown::Close, |stop| *stop),
            connection = listener.accept() => on_accept(connection, &server),
        }
    };
    if stopped == Shutdown::Close {
        return listener.close().await;
    }
    while let Some(connection) = listener.accept_queued().await {
        on_accept(connection, &server);
    }
}
