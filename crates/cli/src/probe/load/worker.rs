//! One thread's part: requests under way, connections that are kept, and the counts of the step.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::super::step::Tally;
use super::exchange::{Connection, Done, Target};

/// What a worker is told.
pub(super) enum Order {
    /// A step begins; this is when it is measured.
    Begin(Range<Instant>),
    /// A request that is due now.
    Send(Instant),
    /// The step is over. The counts are wanted when the last answer has come.
    End(oneshot::Sender<Tally>),
}

pub(super) struct Worker {
    target: Arc<Target>,
    /// How many are under way, by all workers.
    under_way: Arc<AtomicUsize>,
    /// The one used last is used next: the others may rest, and be closed by the server.
    kept: Vec<Connection>,
    requests: JoinSet<Done>,
    window: Option<Range<Instant>>,
    tally: Tally,
}

impl Worker {
    pub(super) fn new(target: Arc<Target>, under_way: Arc<AtomicUsize>) -> Self {
        let (kept, requests) = (Vec::new(), JoinSet::new());
        Self { target, under_way, kept, requests, window: None, tally: Tally::default() }
    }

    /// Works until nobody gives orders any more. What is under way then is given up.
    pub(super) async fn work(mut self, mut orders: UnboundedReceiver<Order>) {
        let mut asking: Option<oneshot::Sender<Tally>> = None;
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    None => return,
                    Some(Order::Begin(window)) => self.window = Some(window),
                    Some(Order::Send(due)) => self.send(due),
                    Some(Order::End(asked)) => asking = Some(asked),
                },
                Some(done) = self.requests.join_next() => self.take(done.ok()),
            }
            if self.requests.is_empty()
                && let Some(asked) = asking.take()
            {
                // Whoever does not wait for it has no use for it.
                drop(asked.send(std::mem::take(&mut self.tally)));
            }
        }
    }

    fn send(&mut self, due: Instant) {
        if self.is_counted(due) {
            self.tally.due += 1;
            self.tally.lateness.push(due.elapsed());
        }
        let kept = std::iter::from_fn(|| self.kept.pop()).find(Connection::is_ready);
        let target = self.target.clone();
        self.requests.spawn(async move { target.exchange(kept, due).await });
    }

    fn take(&mut self, done: Option<Done>) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        let Some(Done { due, ended, fate, kept }) = done else { return };
        self.kept.extend(kept);
        self.tally.good += u64::from(fate.is_good() && self.is_counted(ended));
        if self.is_counted(due) {
            self.tally.ended(fate, ended.saturating_duration_since(due));
        }
    }

    fn is_counted(&self, time: Instant) -> bool {
        self.window.as_ref().is_some_and(|window| window.contains(&time))
    }
}
