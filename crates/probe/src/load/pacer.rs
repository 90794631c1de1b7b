//! Pacer: hands each request to a worker at its send time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::super::schedule::Schedule;
use super::worker::WorkerCommand;

/// Maximum sleep between checks of the stop flag.
const MAX_SLEEP: Duration = Duration::from_millis(50);

pub(super) struct Pacer {
    pub(super) schedule: Schedule,
    pub(super) begin: Instant,
    pub(super) workers: Vec<UnboundedSender<WorkerCommand>>,
    pub(super) in_flight: Arc<AtomicUsize>,
    pub(super) max_in_flight: usize,
    pub(super) is_over: Arc<AtomicBool>,
}

impl Pacer {
    /// Runs the step. Returns the number of measured requests that were not sent.
    pub(super) fn run(self) -> u64 {
        let measured = self.schedule.measured_window();
        let mut not_sent = 0;
        for (index, worker) in (0..).zip(self.workers.iter().cycle()) {
            let Some(due) = self.schedule.due(index) else { break };
            if !self.wait_until(self.begin + due) {
                break;
            }
            if self.in_flight.fetch_add(1, Ordering::Relaxed) >= self.max_in_flight {
                self.in_flight.fetch_sub(1, Ordering::Relaxed);
                not_sent += u64::from(measured.contains(&due));
            } else if worker.send(WorkerCommand::Send(self.begin + due)).is_err() {
                break;
            }
        }
        // The step has its full length, also after its last request.
        self.wait_until(self.begin + self.schedule.length);
        not_sent
    }

    /// Sleeps until `time`. False if the pacer should stop.
    fn wait_until(&self, time: Instant) -> bool {
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(MAX_SLEEP));
        }
    }
}
