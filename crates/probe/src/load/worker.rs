//! Worker thread: its requests in flight, its idle connections and its counts.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::super::step::StepCounts;
use super::exchange::{CompletedRequest, IdleConnection, LoadTarget};

/// Command to a worker.
pub(super) enum WorkerCommand {
    /// Begin a step with this measured window.
    Begin(Range<Instant>),
    /// Send a request that is due at this time.
    Send(Instant),
    /// End the step. The counts are sent after the last response.
    End(oneshot::Sender<StepCounts>),
}

pub(super) struct LoadWorker {
    target: Arc<LoadTarget>,
    /// Requests in flight of all workers.
    in_flight: Arc<AtomicUsize>,
    /// Idle connections. The last used one is used next: the others may be closed by the server.
    idle: Vec<IdleConnection>,
    requests: JoinSet<CompletedRequest>,
    window: Option<Range<Instant>>,
    counts: StepCounts,
}

impl LoadWorker {
    pub(super) fn new(target: Arc<LoadTarget>, in_flight: Arc<AtomicUsize>) -> Self {
        let (idle, requests) = (Vec::new(), JoinSet::new());
        Self { target, in_flight, idle, requests, window: None, counts: StepCounts::default() }
    }

    /// Runs until the command channel closes. Requests in flight are then dropped.
    pub(super) async fn run(mut self, mut commands: UnboundedReceiver<WorkerCommand>) {
        let mut result_sender: Option<oneshot::Sender<StepCounts>> = None;
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    None => return,
                    Some(WorkerCommand::Begin(window)) => self.window = Some(window),
                    Some(WorkerCommand::Send(due)) => self.send(due),
                    Some(WorkerCommand::End(sender)) => result_sender = Some(sender),
                },
                Some(done) = self.requests.join_next() => self.record(done.ok()),
            }
            if self.requests.is_empty()
                && let Some(sender) = result_sender.take()
            {
                // The receiver may have been dropped.
                drop(sender.send(std::mem::take(&mut self.counts)));
            }
        }
    }

    fn send(&mut self, due: Instant) {
        if self.is_measured(due) {
            self.counts.due += 1;
            self.counts.lateness.push(due.elapsed());
        }
        let idle = std::iter::from_fn(|| self.idle.pop()).find(IdleConnection::is_ready);
        let target = self.target.clone();
        self.requests.spawn(async move { target.exchange(idle, due).await });
    }

    fn record(&mut self, done: Option<CompletedRequest>) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        let Some(CompletedRequest { due, ended, result, connection }) = done else { return };
        self.idle.extend(connection);
        self.counts.good += u64::from(result.is_good() && self.is_measured(ended));
        if self.is_measured(due) {
            self.counts.record(result, ended.saturating_duration_since(due));
        }
    }

    fn is_measured(&self, time: Instant) -> bool {
        self.window.as_ref().is_some_and(|window| window.contains(&time))
    }
}
