//! Server models: processing of admitted requests.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::SECOND;

/// Server model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ServerModel {
    /// Workers that process one request each; further requests queue first come, first served.
    Queue {
        /// Number of workers.
        workers: u32,
    },
    /// Processor sharing: all admitted requests share the cores equally, as in a CPU-bound process.
    Shared {
        /// Number of cores.
        cores: u32,
    },
    /// Pure delay: every request waits for a slow dependency, regardless of the number of waiting requests. The
    /// CPU is never busy.
    Waiting {
        /// Nominal capacity, in concurrently waiting requests.
        slots: u32,
    },
}

impl ServerModel {
    /// Workers with a first-come, first-served queue.
    pub const fn queue(workers: u32) -> Self {
        Self::Queue { workers }
    }

    /// Processor sharing.
    pub const fn shared(cores: u32) -> Self {
        Self::Shared { cores }
    }

    /// Pure delay.
    pub const fn waiting(slots: u32) -> Self {
        Self::Waiting { slots }
    }

    /// Number of requests processed at full speed.
    pub const fn parallelism(&self) -> u32 {
        match *self {
            Self::Queue { workers: width } | Self::Shared { cores: width } | Self::Waiting { slots: width } => width,
        }
    }

    pub(super) fn start(&self) -> SimulatedServer {
        SimulatedServer {
            kind: *self,
            completions: BinaryHeap::new(),
            queue: VecDeque::new(),
            attained: 0.0,
            attained_at: 0,
            busy_nanos: 0.0,
            busy_at: 0,
        }
    }
}

/// Totally ordered `f64`: a time in nanoseconds, or attained service in seconds.
#[derive(Clone, Copy, PartialEq)]
struct OrderedF64(f64);

impl Eq for OrderedF64 {}

impl Ord for OrderedF64 {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for OrderedF64 {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// State of a simulated server.
pub(super) struct SimulatedServer {
    kind: ServerModel,
    /// Running requests by completion: a time, or with processor sharing the attained service at completion.
    completions: BinaryHeap<Reverse<(OrderedF64, u32)>>,
    queue: VecDeque<(u32, f64)>,
    /// Service attained by every request present since the start, in seconds: all have the same share of the
    /// cores.
    attained: f64,
    attained_at: u64,
    busy_nanos: f64,
    busy_at: u64,
}

impl SimulatedServer {
    fn speed(&self, cores: u32) -> f64 {
        (f64::from(cores) / self.completions.len().max(1) as f64).min(1.0)
    }

    /// Updates everything that depends on the number of running requests. Call before that number changes.
    fn advance(&mut self, now: u64) {
        if let ServerModel::Shared { cores } = self.kind {
            self.attained += (now - self.attained_at) as f64 / SECOND as f64 * self.speed(cores);
            self.attained_at = now;
        }
        let busy = match self.kind {
            ServerModel::Waiting { .. } => 0.0,
            ServerModel::Queue { workers: width } | ServerModel::Shared { cores: width } => {
                (self.completions.len() as f64 / f64::from(width)).min(1.0)
            }
        };
        self.busy_nanos += (now - self.busy_at) as f64 * busy;
        self.busy_at = now;
    }

    /// Admits a request with this much work, in seconds.
    pub(super) fn admit(&mut self, now: u64, id: u32, work: f64) {
        self.advance(now);
        match self.kind {
            ServerModel::Queue { workers } if self.completions.len() >= workers as usize => {
                self.queue.push_back((id, work));
            }
            ServerModel::Shared { .. } => self.completions.push(Reverse((OrderedF64(self.attained + work), id))),
            ServerModel::Queue { .. } | ServerModel::Waiting { .. } => self.schedule_completion(now, id, work),
        }
    }

    fn schedule_completion(&mut self, now: u64, id: u32, work: f64) {
        self.completions.push(Reverse((OrderedF64(now as f64 + work * SECOND as f64), id)));
    }

    /// Time of the next completion if no other request is admitted.
    pub(super) fn next_completion(&self) -> Option<u64> {
        let Reverse((OrderedF64(end), _)) = self.completions.peek()?;
        Some(match self.kind {
            ServerModel::Shared { cores } => {
                let remaining = (end - self.attained).max(0.0) / self.speed(cores);
                self.attained_at + (remaining * SECOND as f64).ceil() as u64
            }
            ServerModel::Queue { .. } | ServerModel::Waiting { .. } => end.ceil() as u64,
        })
    }

    /// Completes the request that is due now and returns its id.
    pub(super) fn complete(&mut self, now: u64) -> Option<u32> {
        self.advance(now);
        let Reverse((_, id)) = self.completions.pop()?;
        if let Some((next, work)) = self.queue.pop_front() {
            self.schedule_completion(now, next, work);
        }
        Some(id)
    }

    /// Share of the cores that was busy since the last call.
    pub(super) fn take_utilization(&mut self, now: u64, since: u64) -> f64 {
        self.advance(now);
        let busy = std::mem::take(&mut self.busy_nanos) / (now - since).max(1) as f64;
        busy.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Admits requests given as `(second, work)`; returns the completed ids with their completion time in
    /// milliseconds.
    fn simulate(server: ServerModel, arrivals: &[(f64, f64)]) -> Vec<(u32, u64)> {
        let mut server_state = server.start();
        let mut completed = Vec::new();
        let mut arrivals = arrivals.iter().enumerate().peekable();
        loop {
            let arrival = arrivals.peek().map(|(_, it)| (it.0 * SECOND as f64) as u64);
            match (arrival, server_state.next_completion()) {
                (Some(at), end) if end.is_none_or(|end| at < end) => {
                    if let Some((id, it)) = arrivals.next() {
                        server_state.admit(at, id as u32, it.1);
                    }
                }
                (_, Some(end)) => {
                    completed.extend(server_state.complete(end).map(|id| (id, (end + 500_000) / 1_000_000)));
                }
                (_, None) => return completed,
            }
        }
    }

    #[test]
    fn workers_serve_first_come_first_served() {
        let completed = simulate(ServerModel::queue(1), &[(0.0, 0.1), (0.01, 0.1), (0.02, 0.05)]);
        assert_eq!(completed, [(0, 100), (1, 200), (2, 250)]);
        assert_eq!(simulate(ServerModel::queue(2), &[(0.0, 0.1), (0.01, 0.1)]), [(0, 100), (1, 110)]);
    }

    #[test]
    fn cores_are_shared_evenly() {
        // Alone for 10 ms, then two at half speed until the second has its 20 ms, then alone again.
        let completed = simulate(ServerModel::shared(1), &[(0.0, 0.1), (0.01, 0.02)]);
        assert_eq!(completed, [(1, 50), (0, 120)]);
        assert_eq!(simulate(ServerModel::shared(2), &[(0.0, 0.1), (0.01, 0.02)]), [(1, 30), (0, 100)]);
    }

    #[test]
    fn waiting_uses_no_cpu() {
        let completed = simulate(ServerModel::waiting(1), &[(0.0, 0.1), (0.0, 0.1), (0.05, 0.02)]);
        assert_eq!(completed, [(2, 70), (0, 100), (1, 100)]);
        let mut server_state = ServerModel::waiting(1).start();
        server_state.admit(0, 0, 1.0);
        assert_eq!(server_state.take_utilization(SECOND / 2, 0), 0.0);
        let mut server_state = ServerModel::shared(2).start();
        server_state.admit(0, 0, 1.0);
        assert_eq!(server_state.take_utilization(SECOND / 2, 0), 0.5);
    }
}
