//! Keeps time: hands every request over when it is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::super::schedule::Schedule;
use super::worker::Order;

/// How long it sleeps at most before it looks whether it should stop.
const NAP: Duration = Duration::from_millis(50);

pub(super) struct Pacer {
    pub(super) schedule: Schedule,
    pub(super) begin: Instant,
    pub(super) workers: Vec<UnboundedSender<Order>>,
    pub(super) under_way: Arc<AtomicUsize>,
    pub(super) max_in_flight: usize,
    pub(super) is_over: Arc<AtomicBool>,
}

impl Pacer {
    /// Runs the step. How many that count were held back.
    pub(super) fn pace(self) -> u64 {
        let measured = self.schedule.measured();
        let mut held_back = 0;
        for (nth, worker) in (0..).zip(self.workers.iter().cycle()) {
            let Some(due) = self.schedule.due(nth) else { break };
            if !self.wait_until(self.begin + due) {
                break;
            }
            if self.under_way.fetch_add(1, Ordering::Relaxed) >= self.max_in_flight {
                self.under_way.fetch_sub(1, Ordering::Relaxed);
                held_back += u64::from(measured.contains(&due));
            } else if worker.send(Order::Send(self.begin + due)).is_err() {
                break;
            }
        }
        // The step has its whole length, also after its last request.
        self.wait_until(self.begin + self.schedule.length);
        held_back
    }

    /// Whether to go on.
    fn wait_until(&self, time: Instant) -> bool {
        loop {
            if self.is_over.load(Ordering::Relaxed) {
                return false;
            }
            let left = time.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(NAP));
        }
    }
}
