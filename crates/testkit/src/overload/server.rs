//! Servers: what happens to requests that were let in.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::SECOND;

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Server {
    /// So many workers, each busy with one request until it is done; the others queue, first come, first served.
    Queue {
        /// How many.
        workers: u32,
    },
    /// So many cores that everybody inside shares evenly: a process that computes.
    Shared {
        /// How many.
        cores: u32,
    },
    /// Everybody waits for something else that takes its time, however many wait: a process whose dependency is slow.
    /// So many cores would be needed to count as busy.
    Waiting {
        /// What counts as its capacity, in requests that wait at once.
        places: u32,
    },
}

impl Server {
    /// First come, first served.
    pub const fn queue(workers: u32) -> Self {
        Self::Queue { workers }
    }

    /// Cores that everybody shares.
    pub const fn shared(cores: u32) -> Self {
        Self::Shared { cores }
    }

    /// Nothing but waiting.
    pub const fn waiting(places: u32) -> Self {
        Self::Waiting { places }
    }

    /// How many requests are worked on at full speed.
    pub const fn width(&self) -> u32 {
        match *self {
            Self::Queue { workers: width } | Self::Shared { cores: width } | Self::Waiting { places: width } => width,
        }
    }

    pub(super) fn start(&self) -> Running {
        Running {
            kind: *self,
            ends: BinaryHeap::new(),
            queue: VecDeque::new(),
            spent: 0.0,
            spent_at: 0,
            busy_nanos: 0.0,
            busy_at: 0,
        }
    }
}

/// A moment that can be compared: in nanoseconds, or in seconds of work done for each.
#[derive(Clone, Copy, PartialEq)]
struct Moment(f64);

impl Eq for Moment {}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A server at work.
pub(super) struct Running {
    kind: Server,
    /// Who is worked on, by when they end: a moment, or for shared cores how much work everybody has had by then.
    ends: BinaryHeap<Reverse<(Moment, u32)>>,
    queue: VecDeque<(u32, f64)>,
    /// How much work everybody inside has had since the start, in seconds: all have the same share of the cores.
    spent: f64,
    spent_at: u64,
    busy_nanos: f64,
    busy_at: u64,
}

impl Running {
    fn speed(&self, cores: u32) -> f64 {
        (f64::from(cores) / self.ends.len().max(1) as f64).min(1.0)
    }

    /// Brings what depends on the number inside up to now. To be done before it changes.
    fn catch_up(&mut self, now: u64) {
        if let Server::Shared { cores } = self.kind {
            self.spent += (now - self.spent_at) as f64 / SECOND as f64 * self.speed(cores);
            self.spent_at = now;
        }
        let busy = match self.kind {
            Server::Waiting { .. } => 0.0,
            Server::Queue { workers: width } | Server::Shared { cores: width } => {
                (self.ends.len() as f64 / f64::from(width)).min(1.0)
            }
        };
        self.busy_nanos += (now - self.busy_at) as f64 * busy;
        self.busy_at = now;
    }

    /// A request comes in with so many seconds of work.
    pub(super) fn enter(&mut self, now: u64, who: u32, work: f64) {
        self.catch_up(now);
        match self.kind {
            Server::Queue { workers } if self.ends.len() >= workers as usize => self.queue.push_back((who, work)),
            Server::Shared { .. } => self.ends.push(Reverse((Moment(self.spent + work), who))),
            Server::Queue { .. } | Server::Waiting { .. } => self.end_after(now, who, work),
        }
    }

    fn end_after(&mut self, now: u64, who: u32, work: f64) {
        self.ends.push(Reverse((Moment(now as f64 + work * SECOND as f64), who)));
    }

    /// When the next one ends, if nobody else comes in.
    pub(super) fn next_end(&self) -> Option<u64> {
        let Reverse((Moment(end), _)) = self.ends.peek()?;
        Some(match self.kind {
            Server::Shared { cores } => {
                let left = (end - self.spent).max(0.0) / self.speed(cores);
                self.spent_at + (left * SECOND as f64).ceil() as u64
            }
            Server::Queue { .. } | Server::Waiting { .. } => end.ceil() as u64,
        })
    }

    /// The one who ends now.
    pub(super) fn end(&mut self, now: u64) -> Option<u32> {
        self.catch_up(now);
        let Reverse((_, who)) = self.ends.pop()?;
        if let Some((next, work)) = self.queue.pop_front() {
            self.end_after(now, next, work);
        }
        Some(who)
    }

    /// Which share of the cores was busy since this was last asked.
    pub(super) fn take_busy(&mut self, now: u64, since: u64) -> f64 {
        self.catch_up(now);
        let busy = std::mem::take(&mut self.busy_nanos) / (now - since).max(1) as f64;
        busy.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets requests in, `(second, work)`; answers who ended at which millisecond.
    fn play(server: Server, come: &[(f64, f64)]) -> Vec<(u32, u64)> {
        let mut running = server.start();
        let mut ended = Vec::new();
        let mut come = come.iter().enumerate().peekable();
        loop {
            let arrival = come.peek().map(|(_, it)| (it.0 * SECOND as f64) as u64);
            match (arrival, running.next_end()) {
                (Some(at), end) if end.is_none_or(|end| at < end) => {
                    if let Some((who, it)) = come.next() {
                        running.enter(at, who as u32, it.1);
                    }
                }
                (_, Some(end)) => ended.extend(running.end(end).map(|who| (who, (end + 500_000) / 1_000_000))),
                (_, None) => return ended,
            }
        }
    }

    #[test]
    fn workers_take_one_after_the_other() {
        let ended = play(Server::queue(1), &[(0.0, 0.1), (0.01, 0.1), (0.02, 0.05)]);
        assert_eq!(ended, [(0, 100), (1, 200), (2, 250)]);
        assert_eq!(play(Server::queue(2), &[(0.0, 0.1), (0.01, 0.1)]), [(0, 100), (1, 110)]);
    }

    #[test]
    fn cores_are_shared_evenly() {
        // Alone for 10 ms, then two at half speed until the second has its 20 ms, then alone again.
        let ended = play(Server::shared(1), &[(0.0, 0.1), (0.01, 0.02)]);
        assert_eq!(ended, [(1, 50), (0, 120)]);
        assert_eq!(play(Server::shared(2), &[(0.0, 0.1), (0.01, 0.02)]), [(1, 30), (0, 100)]);
    }

    #[test]
    fn waiting_is_no_work() {
        let ended = play(Server::waiting(1), &[(0.0, 0.1), (0.0, 0.1), (0.05, 0.02)]);
        assert_eq!(ended, [(2, 70), (0, 100), (1, 100)]);
        let mut running = Server::waiting(1).start();
        running.enter(0, 0, 1.0);
        assert_eq!(running.take_busy(SECOND / 2, 0), 0.0);
        let mut running = Server::shared(2).start();
        running.enter(0, 0, 1.0);
        assert_eq!(running.take_busy(SECOND / 2, 0), 0.5);
    }
}
