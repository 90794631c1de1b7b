//! The load generator: what leaves when it is due, and what comes back.
//!
//! ```text
//!  pacer (a thread)  --due-->  worker 1..n (a thread and its runtime each)  --tally-->  one step
//!  sleeps to the next            a pool of kept connections,
//!  request's time                a task for every request under way
//! ```
//!
//! The pacer does nothing but keep time: timers of a runtime are late by up to a millisecond, and by more while it
//! works. It waits for nobody. Should more requests be under way than may be, it holds the next ones back and counts
//! them, so that a service that stands still is not buried.

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

pub(super) use self::exchange::Target;
use self::pacer::Pacer;
use self::worker::{Order, Worker};
use super::schedule::Schedule;
use super::step::{Step, Tally};

/// More threads than this only stand in each other's way.
const MOST_WORKERS: usize = 8;
/// How long after being told a step begins, so that everybody is ready.
const LEAD: Duration = Duration::from_millis(5);

/// The workers, ready for a step.
pub(super) struct Load {
    workers: Vec<mpsc::UnboundedSender<Order>>,
    threads: Vec<JoinHandle<()>>,
    under_way: Arc<AtomicUsize>,
    max_in_flight: usize,
}

impl Load {
    /// Fails if the system has no threads to give.
    pub(super) fn start(target: &Arc<Target>, max_in_flight: usize) -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, usize::from).min(MOST_WORKERS);
        let under_way = Arc::new(AtomicUsize::new(0));
        let mut load = Self { workers: Vec::new(), threads: Vec::new(), under_way, max_in_flight };
        for nth in 1..=count {
            let (orders, taken) = mpsc::unbounded_channel();
            let worker = Worker::new(target.clone(), load.under_way.clone());
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let work = move || runtime.block_on(worker.work(taken));
            load.threads.push(thread::Builder::new().name(format!("load {nth}")).spawn(work)?);
            load.workers.push(orders);
        }
        Ok(load)
    }

    /// Runs a step to its end, including the answers that are still to come. Dropped, it sends no more.
    pub(super) async fn run(&self, schedule: Schedule) -> io::Result<Step> {
        let begin = Instant::now() + LEAD;
        let measured = schedule.measured();
        let window = begin + measured.start..begin + measured.end;
        self.tell(|| Order::Begin(window.clone()))?;
        let (paced, pacing) = oneshot::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let _stop = Stop(is_over.clone());
        let pacer = Pacer {
            schedule,
            begin,
            workers: self.workers.clone(),
            under_way: self.under_way.clone(),
            max_in_flight: self.max_in_flight,
            is_over,
        };
        // Whoever does not wait for it has no use for it.
        let pace = move || _ = paced.send(pacer.pace());
        thread::Builder::new().name("pacer".to_owned()).spawn(pace)?;
        let gone = |_| io::Error::other("the load generator broke down");
        tokio::time::sleep_until(window.start.into()).await;
        let before = processor::used();
        let mut tally = Tally { held_back: pacing.await.map_err(gone)?, ..Tally::default() };
        let processor = processor::share(before, processor::used(), window.start.elapsed(), self.workers.len());
        tally.due += tally.held_back;
        let mut ends = Vec::new();
        self.tell(|| {
            let (end, ended) = oneshot::channel();
            ends.push(ended);
            Order::End(end)
        })?;
        for end in ends {
            tally.add(end.await.map_err(gone)?);
        }
        Ok(Step::new(schedule.rate, measured.end - measured.start, processor, tally))
    }

    fn tell(&self, mut order: impl FnMut() -> Order) -> io::Result<()> {
        let gone = |_| io::Error::other("the load generator broke down");
        self.workers.iter().try_for_each(|worker| worker.send(order()).map_err(gone))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.workers.clear();
        for thread in self.threads.drain(..) {
            // A worker that broke down has been told of already.
            drop(thread.join());
        }
    }
}

/// Tells the pacer when nobody waits for it any more.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
