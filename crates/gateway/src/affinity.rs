//! CPU affinity: migration of connections between worker threads.
//!
//! The kernel assigns connections to worker threads at random, so every thread has clients on every CPU: nearly
//! every response wakes a task on another CPU, and the next request arrives from there. A thread with all its
//! clients on its own CPU finds the requests of many of them when it is scheduled, and they find their
//! responses in the same way. With gateway and clients on one machine, this saves a sixth of the work for a
//! short request; over a network, a client's CPU is the one that handles the network card's interrupts for it.
//!
//! A connection therefore probes its [client's CPU](ClientCpu) now and then. If another worker runs there, the
//! connection migrates between two requests: it is parked here and resumed [there](IdlePool). Migration never
//! gives a thread more connections than random assignment often would. If all clients are on one CPU, workers
//! on other CPUs keep theirs.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::idle_pool::IdlePool;

/// All worker threads of a gateway.
pub(crate) struct WorkerRegistry(Box<[WorkerHandle]>);

/// State of one worker that others can see. Aligned to avoid false sharing.
#[repr(align(128))]
pub(crate) struct WorkerHandle {
    /// Parked connections; `None` if epoll is not available.
    pub(crate) idle_pool: Option<IdlePool>,
    /// Active connections.
    active: AtomicUsize,
    /// CPU it was last seen on.
    cpu: AtomicUsize,
    /// Connections migrated to it.
    migrated_in: AtomicU64,
}

impl WorkerRegistry {
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(WorkerHandle::new).collect())
    }

    /// The worker with this index.
    pub(crate) fn get(&self, index: usize) -> &WorkerHandle {
        &self.0[index]
    }

    /// The worker on this CPU, unless `from` is on it; of several, the one with the fewest active connections.
    fn worker_on_cpu(&self, from: usize, cpu: usize) -> Option<usize> {
        if self.get(from).cpu() == cpu {
            return None;
        }
        let on_cpu = (0..self.0.len()).filter(|index| self.get(*index).cpu() == cpu);
        on_cpu.min_by_key(|index| self.get(*index).active())
    }

    /// True if a connection may migrate from one worker to the other.
    fn may_migrate(&self, from: usize, to: usize) -> bool {
        is_balanced(self.get(from).active(), self.get(to).active())
    }

    /// Number of migrated connections.
    pub(crate) fn migrated(&self) -> u64 {
        self.0.iter().map(|worker| worker.migrated_in.load(Ordering::Relaxed)).sum()
    }
}

impl WorkerHandle {
    /// A worker that has not reported its CPU yet; assumes a CPU.
    fn new(cpu: usize) -> Self {
        let (active, cpu, migrated_in) = (AtomicUsize::new(0), AtomicUsize::new(cpu), AtomicU64::new(0));
        Self { idle_pool: IdlePool::new(), active, cpu, migrated_in }
    }

    fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    fn cpu(&self) -> usize {
        self.cpu.load(Ordering::Relaxed)
    }

    /// One more connection is active.
    pub(crate) fn connection_activated(&self) {
        self.active.fetch_add(1, Ordering::Relaxed);
    }

    /// One connection less is active.
    pub(crate) fn connection_deactivated(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    /// A connection has migrated to this worker.
    pub(crate) fn connection_migrated_in(&self) {
        self.migrated_in.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the worker's CPU.
    fn set_cpu(&self, cpu: usize) {
        // Other threads read it; it rarely changes.
        if self.cpu() != cpu {
            self.cpu.store(cpu, Ordering::Relaxed);
        }
    }
}

/// True if a connection may move from a worker with `from` connections to one with `to`. Random assignment
/// would differ by twice this much in every third case, but connections that are on their way have left here
/// and are not active there yet.
const fn is_balanced(from: usize, to: usize) -> bool {
    to <= from + (from + to).isqrt() / 2
}

/// CPU of a connection's client, as seen by the worker that serves it.
///
/// A probe costs a system call, so there are two in 256 requests. A client seen on another worker's CPU only
/// once may have been scheduled there for a moment; a connection migrates after two consecutive probes agree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientCpu {
    /// Requests served, modulo 256.
    requests: u8,
    /// The candidate worker of the last probe.
    candidate: Option<usize>,
}

/// Request counts at which the client's CPU is probed. Shorter connections never migrate.
const PROBE_AFTER_REQUESTS: [u8; 2] = [32, 64];

/// Requests between updates of the worker's own CPU: frequent, since a worker has many connections and may be
/// moved.
const CPU_UPDATE_REQUESTS: u8 = 8;

impl ClientCpu {
    /// Counts a request served by the worker `from`. `client_cpu` returns the client's CPU. Returns the worker that
    /// should take over the connection, if any.
    #[inline]
    pub(crate) fn request_done(
        &mut self,
        workers: &WorkerRegistry,
        from: usize,
        client_cpu: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        self.requests = self.requests.wrapping_add(1);
        if !self.requests.is_multiple_of(CPU_UPDATE_REQUESTS) {
            return None;
        }
        workers.get(from).set_cpu(rustix::thread::sched_getcpu());
        if PROBE_AFTER_REQUESTS.contains(&self.requests) { self.probe(workers, from, client_cpu()) } else { None }
    }

    fn probe(&mut self, workers: &WorkerRegistry, from: usize, client_cpu: Option<usize>) -> Option<usize> {
        let candidate = client_cpu.and_then(|core| workers.worker_on_cpu(from, core));
        let before = std::mem::replace(&mut self.candidate, candidate);
        candidate.filter(|to| before == candidate && workers.may_migrate(from, *to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workers on these CPUs, with this many connections each.
    fn workers(all: &[(usize, usize)]) -> WorkerRegistry {
        let workers = WorkerRegistry::new(all.len());
        for (index, (cpu, active)) in all.iter().enumerate() {
            workers.get(index).set_cpu(*cpu);
            (0..*active).for_each(|_| workers.get(index).connection_activated());
        }
        workers
    }

    #[test]
    fn a_connection_migrates_to_the_worker_on_its_clients_cpu() {
        let workers = workers(&[(7, 10), (3, 30), (3, 20), (5, 0)]);
        assert_eq!(workers.worker_on_cpu(0, 3), Some(2), "the less loaded worker");
        assert_eq!(workers.worker_on_cpu(1, 3), None, "it is already there");
        assert_eq!(workers.worker_on_cpu(1, 5), Some(3));
        assert_eq!(workers.worker_on_cpu(1, 4), None, "no worker has this CPU");
    }

    #[test]
    fn migration_needs_two_consecutive_probes() {
        let workers = workers(&[(0, 0), (1, 0)]);
        let mut client_cpu = ClientCpu::default();
        for (client, expected) in [
            (Some(1), None),
            (Some(0), None),
            (Some(1), None),
            (None, None),
            (Some(1), None),
            (Some(1), Some(1)),
            // If the migration fails, it is proposed again.
            (Some(1), Some(1)),
        ] {
            assert_eq!(client_cpu.probe(&workers, 0, client), expected);
        }
        workers.get(1).connection_activated();
        assert_eq!(client_cpu.probe(&workers, 0, Some(1)), None, "it would share the target worker and is alone here");
    }

    #[test]
    fn probes_are_rare() {
        let workers = workers(&[(0, 0), (1, 0)]);
        let (mut client_cpu, mut probed) = (ClientCpu::default(), Vec::new());
        for request in 1..=512 {
            client_cpu.request_done(&workers, 0, || {
                probed.push(request);
                None
            });
        }
        assert_eq!(probed, [32, 64, 288, 320]);
    }

    /// For any initial distribution, and if all connections want to move to one worker, no worker ends up with much
    /// more than another one had.
    #[test]
    fn migration_keeps_workers_balanced() {
        for (mut from, mut to) in [(32, 32), (1, 0), (0, 1), (1_000, 0), (50, 50), (5_000, 5_000)] {
            let before = from.max(to);
            while from > 0 && is_balanced(from, to) {
                (from, to) = (from - 1, to + 1);
            }
            let tolerance = (from + to).isqrt() / 2 + 2;
            assert!(to <= before.max(from + tolerance), "{from} and {to} of at most {before}");
        }
        assert!(!is_balanced(10, 20) && is_balanced(20, 10) && is_balanced(10, 10));
    }
}
