//! Steady load on the processes of a cluster, with a record of every decision.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sluicegate_testkit::bound::ExactRate;
use sluicegate_testkit::history::{self, Call, CheckMode, Guarantee};

use super::{Process, get};

/// Pause of a caller between two decisions.
const CALL_INTERVAL: Duration = Duration::from_micros(700);

/// Maximum drift of a process's clock (the CPU counter) from the kernel's by the end of a run: they
/// differ by some millionths. The store decides by the kernel's clock.
const MAX_CLOCK_DRIFT_NANOS: u64 = 1_000_000;

/// One decision as observed by its caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedDecision {
    pub(crate) node: u32,
    pub(crate) called: Instant,
    pub(crate) returned: Instant,
    pub(crate) admitted: bool,
    pub(crate) degraded: bool,
}

impl ObservedDecision {
    pub(crate) fn duration(&self) -> Duration {
        self.returned - self.called
    }
}

/// Callers that run until stopped.
pub(crate) struct SteadyLoad {
    start: Instant,
    is_over: Arc<AtomicBool>,
    callers: Vec<JoinHandle<Vec<ObservedDecision>>>,
}

impl SteadyLoad {
    /// Starts two callers for each process, all for the same key.
    pub(crate) fn start(processes: &[&Process]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let callers = processes.iter().zip(0..).flat_map(|(process, node)| [(*process, node); 2]);
        let callers = callers.map(|(process, node)| {
            let (sluice, is_over) = (process.sluice.clone(), Arc::clone(&is_over));
            thread::spawn(move || {
                let mut observed = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let called = Instant::now();
                    let outcome = sluice.decide(&get());
                    let (returned, admitted) = (Instant::now(), outcome.is_admitted());
                    observed.push(ObservedDecision {
                        node,
                        called,
                        returned,
                        admitted,
                        degraded: outcome.is_degraded(),
                    });
                    thread::sleep(CALL_INTERVAL);
                }
                observed
            })
        });
        Self { start: Instant::now(), callers: callers.collect(), is_over }
    }

    /// Stops the callers and returns all decisions.
    pub(crate) fn stop(self) -> History {
        self.is_over.store(true, Ordering::Relaxed);
        let observed = self.callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect();
        History { start: self.start, decisions: observed }
    }
}

/// All decisions of a run.
pub(crate) struct History {
    start: Instant,
    pub(crate) decisions: Vec<ObservedDecision>,
}

impl History {
    /// Proves that the selected admissions keep a bucket's bound: at most `burst` plus the refill.
    pub(crate) fn assert_bucket_bound(
        &self,
        label: &str,
        per_second: u64,
        burst: u64,
        filter: impl Fn(&ObservedDecision) -> bool,
    ) {
        // Callers, processes and the store have separate clocks with different rates: a thousandth is
        // more than their error, and less than a token.
        let nanos = |at: Instant| (at.duration_since(self.start).as_nanos() as u64).div_ceil(1_000) * 1_001;
        let calls: Vec<Call<()>> = self
            .decisions
            .iter()
            .filter(|observed| filter(observed))
            .map(|observed| {
                let doubt = if observed.degraded { MAX_CLOCK_DRIFT_NANOS } else { 0 };
                let (called_at, returned_at) =
                    (nanos(observed.called).saturating_sub(doubt), nanos(observed.returned) + doubt);
                Call { node: observed.node, key: (), cost: 1, admitted: observed.admitted, called_at, returned_at }
            })
            .collect();
        let promise = Guarantee::TokenBucket { rate: ExactRate::per_second(per_second), burst };
        match history::check(&calls, &promise, CheckMode::Proof) {
            Ok(summary) => eprintln!("{label}: {} admitted of {}, bound kept", summary.cost, calls.len()),
            Err(violation) => panic!("{label}: {violation}"),
        }
    }

    pub(crate) fn count(&self, filter: impl Fn(&ObservedDecision) -> bool) -> usize {
        self.decisions.iter().filter(|observed| filter(observed)).count()
    }

    /// Latency of decisions called in this span: the 99th percentile, the maximum, and the count.
    pub(crate) fn latency(&self, from: Instant, to: Instant) -> LatencySummary {
        let inside = self.decisions.iter().filter(|observed| observed.called >= from && observed.called < to);
        let mut elapsed: Vec<Duration> = inside.map(ObservedDecision::duration).collect();
        elapsed.sort_unstable();
        let p99 = elapsed.get((elapsed.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
        LatencySummary { p99, max: elapsed.last().copied().unwrap_or_default(), count: elapsed.len() }
    }
}

/// Latency of decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatencySummary {
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
    pub(crate) count: usize,
}
