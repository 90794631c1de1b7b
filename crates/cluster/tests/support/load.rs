//! Steady load on the processes of a fleet, and what came of every decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sluicegate_testkit::bound::Pace;
use sluicegate_testkit::history::{self, Call, Judge, Promise};

use super::{Process, get};

/// How long a caller pauses between two decisions.
const PAUSE: Duration = Duration::from_micros(700);

/// How far a process's own clock, the processor's counter, may be from the kernel's by the end of a run: they
/// differ by some millionths. What the store decides, it decides by the kernel's.
const ADRIFT: u64 = 1_000_000;

/// One decision as its caller saw it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) node: u32,
    pub(crate) called: Instant,
    pub(crate) returned: Instant,
    pub(crate) admitted: bool,
    pub(crate) degraded: bool,
}

impl Seen {
    pub(crate) fn took(&self) -> Duration {
        self.returned - self.called
    }
}

/// Callers that ask until they are stopped.
pub(crate) struct Load {
    begun: Instant,
    is_over: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Vec<Seen>>>,
}

impl Load {
    /// Two callers for each process, all for the same key.
    pub(crate) fn start(processes: &[&Process]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let callers = processes.iter().zip(0..).flat_map(|(process, node)| [(*process, node); 2]);
        let callers = callers.map(|(process, node)| {
            let (sluice, is_over) = (process.sluice.clone(), Arc::clone(&is_over));
            thread::spawn(move || {
                let mut seen = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let called = Instant::now();
                    let outcome = sluice.decide(&get());
                    let (returned, admitted) = (Instant::now(), outcome.is_admitted());
                    seen.push(Seen { node, called, returned, admitted, degraded: outcome.is_degraded() });
                    thread::sleep(PAUSE);
                }
                seen
            })
        });
        Self { begun: Instant::now(), callers: callers.collect(), is_over }
    }

    /// What came of it.
    pub(crate) fn stop(self) -> History {
        self.is_over.store(true, Ordering::Relaxed);
        let seen = self.callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
        History { begun: self.begun, seen }
    }
}

/// All decisions of a run.
pub(crate) struct History {
    begun: Instant,
    pub(crate) seen: Vec<Seen>,
}

impl History {
    /// Proves that what these decisions admitted keeps a bucket's bound: at most `burst` and what comes in time.
    pub(crate) fn prove(&self, what: &str, per_second: u64, burst: u64, which: impl Fn(&Seen) -> bool) {
        // Callers, processes and the store each have a clock, and no two run at the same rate: a thousandth is
        // more than any of them is off, and not a token.
        let nanos = |at: Instant| (at.duration_since(self.begun).as_nanos() as u64).div_ceil(1_000) * 1_001;
        let calls: Vec<Call<()>> = self
            .seen
            .iter()
            .filter(|seen| which(seen))
            .map(|seen| {
                let doubt = if seen.degraded { ADRIFT } else { 0 };
                let (called_at, returned_at) = (nanos(seen.called).saturating_sub(doubt), nanos(seen.returned) + doubt);
                Call { node: seen.node, key: (), cost: 1, admitted: seen.admitted, called_at, returned_at }
            })
            .collect();
        let promise = Promise::TokenBucket { pace: Pace::per_second(per_second), burst };
        match history::check(&calls, &promise, Judge::Proof) {
            Ok(summary) => eprintln!("{what}: {} admitted of {}, none too many", summary.cost, calls.len()),
            Err(violation) => panic!("{what}: {violation}"),
        }
    }

    pub(crate) fn count(&self, which: impl Fn(&Seen) -> bool) -> usize {
        self.seen.iter().filter(|seen| which(seen)).count()
    }

    /// How long decisions took that were called in this span: the 99th percentile, the longest, and how many.
    pub(crate) fn took(&self, from: Instant, to: Instant) -> Took {
        let inside = self.seen.iter().filter(|seen| seen.called >= from && seen.called < to);
        let mut took: Vec<Duration> = inside.map(Seen::took).collect();
        took.sort_unstable();
        let p99 = took.get((took.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
        Took { p99, longest: took.last().copied().unwrap_or_default(), of: took.len() }
    }
}

/// How long decisions took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) p99: Duration,
    pub(crate) longest: Duration,
    pub(crate) of: usize,
}
