//! Open-loop load generator.
//!
//! ```text
//!  pacer (a thread)  --due-->  worker 1..n (a thread and its runtime each)  --counts-->  one step
//!  sleeps until the next         a pool of idle connections,
//!  send time                     one task per request in flight
//! ```
//!
//! The pacer only keeps time: timers of a runtime are late by up to a millisecond, and by more under load. It
//! never blocks on a worker. If too many requests are in flight, it skips the next ones and counts them, so that
//! a stalled service is not flooded.

mod exchange;
mod pacer;
mod processor;
mod worker;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

pub(super) use self::exchange::LoadTarget;
use self::pacer::Pacer;
use self::worker::{LoadWorker, WorkerCommand};
use super::schedule::Schedule;
use super::step::{StepCounts, StepResult};

/// Maximum number of workers; more threads only contend with each other.
const MAX_WORKERS: usize = 8;
/// Delay before a step begins, so that all workers are ready.
const START_DELAY: Duration = Duration::from_millis(5);

/// The workers of the load generator.
pub(super) struct LoadGenerator {
    workers: Vec<mpsc::UnboundedSender<WorkerCommand>>,
    threads: Vec<JoinHandle<()>>,
    in_flight: Arc<AtomicUsize>,
    max_in_flight: usize,
}

impl LoadGenerator {
    /// Fails if threads cannot be started.
    pub(super) fn start(target: &Arc<LoadTarget>, max_in_flight: usize) -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MAX_WORKERS);
        let in_flight = Arc::new(AtomicUsize::new(0));
        let mut load = Self { workers: Vec::new(), threads: Vec::new(), in_flight, max_in_flight };
        for number in 1..=count {
            let (sender, receiver) = mpsc::unbounded_channel();
            let worker = LoadWorker::new(target.clone(), load.in_flight.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let work = move || runtime.block_on(worker.run(receiver));
            load.threads.push(thread::Builder::new().name(format!("load {number}")).spawn(work)?);
            load.workers.push(sender);
        }
        Ok(load)
    }

    /// Runs a step and waits for all its responses. Dropping the future stops sending.
    pub(super) async fn run(&self, schedule: Schedule) -> io::Result<StepResult> {
        let begin = Instant::now() + START_DELAY;
        let measured = schedule.measured_window();
        let window = begin + measured.start..begin + measured.end;
        self.broadcast(|| WorkerCommand::Begin(window.clone()))?;
        let (pacer_done, pacer_result) = oneshot::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let _stop = StopOnDrop(is_over.clone());
        let pacer = Pacer {
            schedule,
            begin,
            workers: self.workers.clone(),
            in_flight: self.in_flight.clone(),
            max_in_flight: self.max_in_flight,
            is_over,
        };
        // The receiver may have been dropped.
        let pace = move || _ = pacer_done.send(pacer.run());
        thread::Builder::new().name("pacer".to_owned()).spawn(pace)?;
        let stopped = |_| io::Error::other("the load generator stopped unexpectedly");
        tokio::time::sleep_until(window.start.into()).await;
        let before = processor::cpu_time();
        let mut counts = StepCounts { not_sent: pacer_result.await.map_err(stopped)?, ..StepCounts::default() };
        let cpu_utilization =
            processor::utilization(before, processor::cpu_time(), window.start.elapsed(), self.workers.len());
        counts.due += counts.not_sent;
        let mut ends = Vec::new();
        self.broadcast(|| {
            let (end, ended) = oneshot::channel();
            ends.push(ended);
            WorkerCommand::End(end)
        })?;
        for end in ends {
            counts.add(end.await.map_err(stopped)?);
        }
        Ok(StepResult::new(schedule.rate, measured.end - measured.start, cpu_utilization, counts))
    }

    fn broadcast(&self, mut command: impl FnMut() -> WorkerCommand) -> io::Result<()> {
        let stopped = |_| io::Error::other("the load generator stopped unexpectedly");
        self.workers.iter().try_for_each(|worker| worker.send(command()).map_err(stopped))
    }
}

impl Drop for LoadGenerator {
    fn drop(&mut self) {
        self.workers.clear();
        for thread in self.threads.drain(..) {
            // A panic of a worker has already been reported.
            drop(thread.join());
        }
    }
}

/// Stops the pacer on drop.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
