//! Timing: ours, theirs, ours, theirs, and the best round of each.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// How much to measure.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    /// To see that it works, not to quote.
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

/// Runs every side once per round, in the order given, and returns the lowest figure of each.
///
/// A side measures one stretch of its own and returns nanoseconds per decision.
pub(crate) fn best_of<const SIDES: usize>(rounds: usize, mut sides: [&mut dyn FnMut() -> f64; SIDES]) -> [f64; SIDES] {
    let mut best = [f64::INFINITY; SIDES];
    for _ in 0..rounds {
        for (best, side) in best.iter_mut().zip(sides.iter_mut()) {
            *best = best.min(side());
        }
    }
    best
}

/// What every decision of a case must come to; a case that measures something else stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Every decision admits.
    Admitted,
    /// Every decision refuses.
    Refused,
}

/// Nanoseconds per decision of `decisions` calls, one after another; `decide` is told which one it is
/// and says whether it admitted.
#[inline]
pub(crate) fn nanos_each(decisions: u32, expect: Expect, mut decide: impl FnMut(u32) -> bool) -> f64 {
    let started = Instant::now();
    let admitted: u32 = (0..decisions).map(|nth| u32::from(decide(nth))).sum();
    let elapsed = started.elapsed();
    verify(decisions, admitted, expect);
    elapsed.as_nanos() as f64 / f64::from(decisions)
}

/// The same on `threads` threads at once, each making `decisions` calls: from the first thread's start
/// to the last one's end, divided by the decisions of one thread. A figure equal to the one-thread
/// figure therefore means that the threads do not hinder each other at all.
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
        let admitted: u32 = (0..decisions).map(|nth| u32::from(decide(nth))).sum();
        (started, Instant::now(), admitted)
    };
    let runs: Vec<_> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().expect("a measuring thread ends")).collect()
    });
    for (_, _, admitted) in &runs {
        verify(decisions, *admitted, expect);
    }
    let first = runs.iter().map(|run| run.0).min().expect("at least one thread");
    let last = runs.iter().map(|run| run.1).max().expect("at least one thread");
    last.duration_since(first).as_nanos() as f64 / f64::from(decisions)
}

fn verify(decisions: u32, admitted: u32, expect: Expect) {
    let wanted = if expect == Expect::Admitted { decisions } else { 0 };
    assert_eq!(
        admitted, wanted,
        "of {decisions} decisions, all should have been {expect:?}: the case measures nothing"
    );
}
