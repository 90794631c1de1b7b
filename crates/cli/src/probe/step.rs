//! What a step found: requests counted by how they ended, and what follows from the counts.
//!
//! Two things are counted by different clocks. How a request *ended* and how long it took belong to the moment it
//! was due, so that a request that left late, or never came back, weighs as much as any other. How much the service
//! *does* is the good answers that came while it was measured, whenever they were asked for: a service that falls
//! behind answers everything in the end, only not while it should.

use std::collections::BTreeMap;
use std::time::Duration;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Answered in time, with this status.
    Answered(u16),
    TimedOut,
    /// No connection was to be had.
    Unconnected,
    /// The connection broke before the answer was whole.
    Broken,
    /// It never left, as this machine had no more files or ports for it.
    Exhausted,
}

impl Fate {
    /// Whether the service did what it is there for. What a client did wrong is the client's fault.
    pub(super) fn is_good(self) -> bool {
        matches!(self, Self::Answered(status) if status < 500 && status != 429)
    }
}

/// The counts of a step while it runs. Each worker has its own; they are added up.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Requests that were due while it was measured.
    pub(super) due: u64,
    /// Good answers that came while it was measured.
    pub(super) good: u64,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) timed_out: u64,
    pub(super) unconnected: u64,
    pub(super) broken: u64,
    pub(super) exhausted: u64,
    /// Not sent, as too many were under way.
    pub(super) held_back: u64,
    /// From when it was due to the end of the answer: of good answers, and of those that came too late or never.
    pub(super) latencies: Vec<Duration>,
    /// How long after it was due each request was taken up here.
    pub(super) lateness: Vec<Duration>,
}

impl Tally {
    /// A request that was due while it was measured has ended, after so long.
    pub(super) fn ended(&mut self, fate: Fate, took: Duration) {
        match fate {
            Fate::Answered(status) => *self.statuses.entry(status).or_default() += 1,
            Fate::TimedOut => self.timed_out += 1,
            Fate::Unconnected => self.unconnected += 1,
            Fate::Broken => self.broken += 1,
            Fate::Exhausted => self.exhausted += 1,
        }
        if fate.is_good() || fate == Fate::TimedOut {
            self.latencies.push(took);
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.due += other.due;
        self.good += other.good;
        for (status, many) in other.statuses {
            *self.statuses.entry(status).or_default() += many;
        }
        self.timed_out += other.timed_out;
        self.unconnected += other.unconnected;
        self.broken += other.broken;
        self.exhausted += other.exhausted;
        self.held_back += other.held_back;
        self.latencies.extend(other.latencies);
        self.lateness.extend(other.lateness);
    }
}

/// A step that is over.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// Requests per second that were due.
    pub(super) offered: f64,
    /// Good answers per second.
    pub(super) goodput: f64,
    /// Requests that were due while it was measured.
    pub(super) due: u64,
    /// Good answers that came while it was measured.
    pub(super) good: u64,
    /// Half of the requests took no longer. `None` if there was no good answer.
    pub(super) p50: Option<Duration>,
    /// Of a hundred requests, 99 took no longer.
    pub(super) p99: Option<Duration>,
    /// Of a hundred requests, 99 left no later than this after they were due.
    pub(super) late: Duration,
    /// How much of the processor this program took: 1 is all it could have.
    pub(super) processor: Option<f64>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) failures: Failures,
}

/// What went wrong with the requests of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Failures {
    /// Status 429: there is a limit before the service.
    pub(super) limited: u64,
    /// Status 503.
    pub(super) unavailable: u64,
    /// Any other status from 500 on.
    pub(super) server_errors: u64,
    pub(super) timed_out: u64,
    pub(super) unconnected: u64,
    pub(super) broken: u64,
    /// Not sent, as too many were under way.
    pub(super) held_back: u64,
    /// Not sent, as this machine had no more files or ports.
    pub(super) exhausted: u64,
}

impl Failures {
    /// Failures of the service; refusals by a limit are none.
    pub(super) fn of_service(&self) -> u64 {
        let answered = self.unavailable + self.server_errors;
        answered + self.timed_out + self.unconnected + self.broken + self.held_back
    }

    /// All, with their names.
    pub(super) fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("limited", self.limited),
            ("unavailable", self.unavailable),
            ("server errors", self.server_errors),
            ("timed out", self.timed_out),
            ("no connection", self.unconnected),
            ("broken off", self.broken),
            ("held back", self.held_back),
            ("no files or ports", self.exhausted),
        ]
    }
}

impl Step {
    /// What these counts come to, for a step that was measured for so long.
    pub(super) fn new(offered: f64, measured: Duration, processor: Option<f64>, mut tally: Tally) -> Self {
        let with = |wanted: &dyn Fn(u16) -> bool| -> u64 {
            tally.statuses.iter().filter(|(status, _)| wanted(**status)).map(|(_, many)| many).sum()
        };
        let failures = Failures {
            limited: with(&|status| status == 429),
            unavailable: with(&|status| status == 503),
            server_errors: with(&|status| status >= 500 && status != 503),
            timed_out: tally.timed_out,
            unconnected: tally.unconnected,
            broken: tally.broken,
            held_back: tally.held_back,
            exhausted: tally.exhausted,
        };
        tally.latencies.sort_unstable();
        tally.lateness.sort_unstable();
        Self {
            offered,
            goodput: tally.good as f64 / measured.as_secs_f64(),
            due: tally.due,
            good: tally.good,
            p50: quantile(&tally.latencies, 0.5),
            p99: quantile(&tally.latencies, 0.99),
            late: quantile(&tally.lateness, 0.99).unwrap_or_default(),
            processor,
            statuses: tally.statuses,
            failures,
        }
    }

    /// How much of what was due this is.
    pub(super) fn share(&self, many: u64) -> f64 {
        if self.due == 0 { 0.0 } else { many as f64 / self.due as f64 }
    }
}

/// The smallest of these that so much of them do not exceed. They are in order.
fn quantile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(quantile(&times, 0.5), Some(Duration::from_millis(100)));
        assert_eq!(quantile(&times, 0.99), Some(Duration::from_millis(198)));
        assert_eq!(quantile(&times[..1], 0.99), Some(Duration::from_millis(1)));
        assert_eq!(quantile(&[], 0.99), None);
    }

    #[test]
    fn requests_are_counted_by_how_they_ended() {
        let mut tally = Tally { due: 10, good: 4, held_back: 1, ..Tally::default() };
        let ms = Duration::from_millis;
        for (fate, took) in [
            (Fate::Answered(200), 5),
            (Fate::Answered(404), 6),
            (Fate::Answered(302), 7),
            (Fate::Answered(429), 1),
            (Fate::Answered(503), 1),
            (Fate::Answered(500), 1),
            (Fate::TimedOut, 2_000),
            (Fate::Unconnected, 1),
            (Fate::Broken, 1),
        ] {
            tally.ended(fate, ms(took));
        }
        let mut whole = Tally::default();
        whole.add(tally);
        let step = Step::new(20.0, ms(500), None, whole);
        assert_eq!((step.goodput, step.due), (8.0, 10));
        assert_eq!((step.p50, step.p99), (Some(ms(6)), Some(ms(2_000))), "what failed fast makes nothing fast");
        let one_each = step.failures.named().iter().filter(|(_, many)| *many == 1).count();
        assert_eq!(one_each, 7);
        assert_eq!(step.failures.of_service(), 6);
    }

    #[test]
    fn a_step_without_requests_is_no_trouble() {
        let step = Step::new(1.0, Duration::from_secs(1), None, Tally::default());
        assert_eq!((step.p99, step.goodput, step.share(0)), (None, 0.0, 0.0));
    }
}
