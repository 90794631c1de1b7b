//! What a request costs, from CPU time and requests over the last seconds.
//!
//! The span looked at is two seconds, and longer, up to ten, where there are too few requests in it to tell. CPU time
//! is only told from requests while there are some: what an idle process uses would make a few requests look dear,
//! and what it uses beside them is too small a part of the whole to matter once it is busy.
//!
//! Time is spent on requests before they are done. While many more come than leave, what is done is too little for the
//! time it took, and while what piled up is worked off, too much. A little of that is made up for: of those that are more
//! inside than before, a third is taken for done. That is between none, as in a queue, and half, as where all share
//! the CPU. Where it is more than a little, ticks are put together until as many are inside as when they began, or
//! nearly: over all of them it is right again. Meanwhile they tell that a request takes no less than if all who came were
//! done, and no more than if nothing was spent on those inside.

use std::collections::VecDeque;

/// How far back it is looked, in seconds, if that is enough.
const SPAN: f64 = 2.0;
/// How far at most.
const LONGEST: f64 = 10.0;
/// How many requests are enough.
const ENOUGH: f64 = 20.0;
/// A tick in which less of a core is used per second tells nothing about requests.
const IDLE: f64 = 0.02;

/// By how many requests more or fewer may be inside at the end of a span, by those that were done in it.
const UNEVEN: f64 = 0.6;
/// The part of a request that has been done while it is inside.
const UNDER_WAY: f64 = 1.0 / 3.0;
/// For how many seconds a span may be put together at most.
const LONGEST_SPAN: f64 = 3.0;

/// What happened in a tick.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tick {
    /// How long it was, in seconds.
    pub(super) lasted: f64,
    /// The CPU time used, in seconds.
    pub(super) cpu: f64,
    /// The requests that were done.
    pub(super) done: f64,
    /// The cores that somebody else used, as far as that is known. Below zero where the two were not measured over quite
    /// the same time.
    pub(super) others: f64,
}

impl Tick {
    /// Both together.
    fn and(self, other: Self) -> Self {
        let lasted = self.lasted + other.lasted;
        let others = self.others * self.lasted + other.others * other.lasted;
        Self {
            lasted,
            cpu: self.cpu + other.cpu,
            done: self.done + other.done,
            others: if lasted > 0.0 { others / lasted } else { 0.0 },
        }
    }
}

/// The memory of the last seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Costs {
    ticks: VecDeque<Tick>,
    /// What is being put together, and how many were inside when that began.
    span: Option<(Tick, f64)>,
    inside: f64,
}

/// What the last seconds tell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Told {
    /// Seconds of CPU time per request.
    pub(super) cost: f64,
    /// Cores that somebody else used.
    pub(super) others: f64,
}

impl Costs {
    /// Notes a tick, and how many are inside at its end.
    pub(super) fn note(&mut self, tick: Tick, inside: f64) {
        let before = std::mem::replace(&mut self.inside, inside);
        if self.span.is_none() && tick.cpu < IDLE * tick.lasted && tick.done <= 0.0 {
            return;
        }
        let (span, at_first) = self.span.take().unwrap_or((Tick::default(), before));
        let mut span = span.and(tick);
        let more = inside - at_first;
        if more.abs() > UNEVEN * span.done && span.lasted < LONGEST_SPAN {
            self.span = Some((span, at_first));
            return;
        }
        span.done = (span.done + UNDER_WAY * more).max(0.0);
        self.ticks.push_front(span);
        let mut lasted = 0.0;
        self.ticks.retain(|tick| {
            lasted += tick.lasted;
            lasted - tick.lasted < LONGEST
        });
    }

    /// What is known. `None`: too little happened.
    pub(super) fn told(&self) -> Option<Told> {
        let mut all = Tick::default();
        for tick in &self.ticks {
            if all.lasted >= SPAN && all.done >= ENOUGH {
                break;
            }
            all = all.and(*tick);
        }
        let known = all.done >= 1.0 && all.cpu > 0.0 && all.lasted > 0.0;
        known.then(|| Told { cost: self.bounded(all.cpu / all.done), others: all.others.max(0.0) })
    }

    /// The cost within what is certain of the ticks that are being put together.
    fn bounded(&self, cost: f64) -> f64 {
        let Some((span, at_first)) = self.span.filter(|(span, _)| span.cpu > 0.0) else { return cost };
        let more = self.inside - at_first;
        let (fewest, most) = (span.done + more.min(0.0), span.done + more.max(0.0));
        let cost = if most > 0.0 { cost.max(span.cpu / most) } else { cost };
        if fewest > 0.0 { cost.min(span.cpu / fewest) } else { cost }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tick(cpu: f64, done: f64) -> Tick {
        Tick { lasted: 0.25, cpu, done, others: 0.0 }
    }

    fn cost(costs: &Costs) -> Option<f64> {
        costs.told().map(|told| (told.cost * 1e9).round() / 1e9)
    }

    #[test]
    fn the_last_two_seconds_tell_if_there_is_enough() {
        let mut costs = Costs::default();
        assert_eq!(cost(&costs), None);
        (0..40).for_each(|_| costs.note(tick(0.2, 100.0), 0.0));
        assert_eq!(cost(&costs), Some(0.002));
        (0..8).for_each(|_| costs.note(tick(0.4, 100.0), 0.0));
        assert_eq!(cost(&costs), Some(0.004), "nothing older counts");
    }

    #[test]
    fn few_requests_are_looked_at_for_longer() {
        let mut costs = Costs::default();
        (0..40).for_each(|nth| costs.note(tick(if nth % 2 == 0 { 0.1 } else { 0.3 }, 1.0), 0.0));
        assert_eq!(cost(&costs), Some(0.2));
        // And no more than ten seconds are kept.
        (0..400).for_each(|_| costs.note(tick(0.1, 1.0), 0.0));
        assert!(costs.ticks.len() <= 41);
    }

    #[test]
    fn what_piles_up_and_is_worked_off_counts_as_one() {
        let mut costs = Costs::default();
        (0..40).for_each(|_| costs.note(tick(0.4, 100.0), 10.0));
        assert_eq!(cost(&costs), Some(0.004));
        // The CPU is full, and ever more are inside, of which few are done.
        (1..=4).for_each(|nth| costs.note(tick(0.5, 25.0), 300.0 * f64::from(nth)));
        assert_eq!(cost(&costs), Some(0.004));
        // And then all at once.
        (1..=4).for_each(|nth| costs.note(tick(0.5, 225.0), 1_200.0 - 297.5 * f64::from(nth)));
        let told = cost(&costs).unwrap();
        assert!((0.003..0.005).contains(&told), "{told}");
        (0..8).for_each(|_| costs.note(tick(0.4, 100.0), 10.0));
        // Of what never ends, a part is taken for done.
        (1..=12).for_each(|nth| costs.note(tick(0.5, 25.0), 10.0 + 75.0 * f64::from(nth)));
        assert_eq!(cost(&costs), Some(0.01));
    }

    #[test]
    fn an_idle_process_tells_nothing() {
        let mut costs = Costs::default();
        (0..20).for_each(|_| costs.note(tick(0.2, 100.0), 0.0));
        (0..400).for_each(|_| costs.note(tick(0.001, 0.0), 0.0));
        assert_eq!(cost(&costs), Some(0.002));
    }
}
