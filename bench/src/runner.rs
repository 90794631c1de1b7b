//! Timing of interleaved rounds; the best round of each contender counts.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Size of a run.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// Smoke test instead of a measurement.
    pub(crate) quick: bool,
}

impl Scale {
    /// Rounds per case; the best counts.
    pub(crate) fn rounds(self) -> usize {
        if self.quick { 3 } else { 9 }
    }

    /// `full`, or a tenth of it.
    pub(crate) fn size(self, full: u32) -> u32 {
        if self.quick { full / 10 } else { full }
    }
}

/// Runs every contender once per round, in the given order, and returns the lowest figure of each.
///
/// A contender measures itself and returns nanoseconds per decision.
pub(crate) fn best_of<const N: usize>(rounds: usize, mut contenders: [&mut dyn FnMut() -> f64; N]) -> [f64; N] {
    let mut best = [f64::INFINITY; N];
    for _ in 0..rounds {
        for (best, contender) in best.iter_mut().zip(contenders.iter_mut()) {
            *best = best.min(contender());
        }
    }
    best
}

/// Expected result of every decision of a case; another result aborts the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Every decision admits.
    Admitted,
    /// Every decision refuses.
    Refused,
}

/// Nanoseconds per decision for `decisions` sequential calls. `decide` gets the index of the call and returns whether
/// the request is admitted.
#[inline]
pub(crate) fn nanos_each(decisions: u32, expect: Expect, mut decide: impl FnMut(u32) -> bool) -> f64 {
    let started = Instant::now();
    let admitted: u32 = (0..decisions).map(|index| u32::from(decide(index))).sum();
    let elapsed = started.elapsed();
    verify(decisions, admitted, expect);
    elapsed.as_nanos() as f64 / f64::from(decisions)
}

/// Nanoseconds per decision for `threads` concurrent threads with `decisions` calls each: the time from the start of
/// the first thread to the end of the last one, divided by the decisions of one thread. A figure equal to that of one
/// thread means no contention at all.
pub(crate) fn nanos_each_on<D: FnMut(u32) -> bool>(
    threads: usize,
    decisions: u32,
    expect: Expect,
    decider: impl Fn() -> D + Sync,
) -> f64 {
    let start = Barrier::new(threads);
    let run = || {
        let mut decide = decider();
        start.wait();
        let started = Instant::now();
        let admitted: u32 = (0..decisions).map(|index| u32::from(decide(index))).sum();
        (started, Instant::now(), admitted)
    };
    let runs: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().expect("measuring thread ends")).collect()
    });
    for (_, _, admitted) in &runs {
        verify(decisions, *admitted, expect);
    }
    let first = runs.iter().map(|run| run.0).min().expect("at least one thread");
    let last = runs.iter().map(|run| run.1).max().expect("at least one thread");
    last.duration_since(first).as_nanos() as f64 / f64::from(decisions)
}

fn verify(decisions: u32, admitted: u32, expect: Expect) {
    let expected = if expect == Expect::Admitted { decisions } else { 0 };
    assert_eq!(admitted, expected, "expected all {decisions} decisions to be {expect:?}: the measurement is invalid");
}
