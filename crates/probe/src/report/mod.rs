//! Test report in every output format.

mod chart;
mod html;
mod json;
mod plot;
mod rule;
mod summary;
mod svg;
mod table;

#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::time::Duration;

pub(super) use self::chart::chart;
pub(super) use self::html::page;
pub(super) use self::json::document;
pub(super) use self::rule::rule;
pub(super) use self::summary::report;
pub(super) use self::svg::svg_plot;
pub(super) use self::table::{line, table};
use super::criteria::{FailedCriterion, JudgedStep, StepVerdict};
use super::search::{self, SearchEnd};

/// Findings of a finished test.
pub(super) struct Findings {
    /// Target URL.
    pub(super) target: String,
    pub(super) method: String,
    pub(super) path: String,
    /// Target address.
    pub(super) address: Option<IpAddr>,
    /// Steps in order of execution.
    pub(super) steps: Vec<JudgedStep>,
    pub(super) end: SearchEnd,
    /// Maximum p99 of a good step.
    pub(super) max_p99: Duration,
    /// Safety margin of the limit below the peak, as a fraction.
    pub(super) buffer: f64,
    pub(super) took: Duration,
}

/// Proposed limit below the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) count: u64,
    pub(super) per: RateUnit,
    /// Requests in flight at that rate by Little's law: rate times p99 latency, rounded up.
    pub(super) concurrency: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RateUnit {
    Second,
    /// For peaks below one request per second.
    Minute,
}

impl Findings {
    pub(super) fn peak(&self) -> Option<&JudgedStep> {
        search::peak(&self.steps)
    }

    /// The lowest bad rate above the peak.
    pub(super) fn above_peak(&self) -> Option<&JudgedStep> {
        search::first_bad_above_peak(&self.steps)
    }

    /// Rate of a limit that is already in front of the service: the rate it admitted.
    pub(super) fn existing_limit(&self) -> Option<f64> {
        let limited =
            |judged: &&JudgedStep| matches!(judged.verdict, StepVerdict::Bad(FailedCriterion::Limited { .. }));
        let mut admitted: Vec<f64> = self.steps.iter().filter(limited).map(|judged| judged.step.goodput).collect();
        admitted.sort_by(f64::total_cmp);
        admitted.get(admitted.len() / 2).copied()
    }

    /// The proposed limit, if a peak was found.
    pub(super) fn proposal(&self) -> Option<Proposal> {
        let peak = &self.peak()?.step;
        let rate = peak.offered * (1.0 - self.buffer);
        // Rounds down, but tolerates floating-point error.
        let round_down = |number: f64| (number + 1e-6).floor();
        let (count, per) = if round_down(rate) >= 1.0 {
            (round_down(rate), RateUnit::Second)
        } else {
            (round_down(rate * 60.0).max(1.0), RateUnit::Minute)
        };
        let concurrency = (rate * peak.p99.unwrap_or_default().as_secs_f64() - 1e-6).ceil().max(1.0);
        Some(Proposal { count: count as u64, per, concurrency: concurrency as u64 })
    }

    /// The most common status of good responses, if it is not a success.
    pub(super) fn unexpected_status(&self) -> Option<u16> {
        let (status, _) = self.peak()?.step.statuses.iter().max_by_key(|(_, count)| **count)?;
        (!(200..300).contains(status)).then_some(*status)
    }

    /// True if the target runs on the same machine as the load generator.
    pub(super) fn is_local(&self) -> bool {
        self.address.is_some_and(|address| address.to_canonical().is_loopback())
    }
}

impl Proposal {
    /// The limit in rule file syntax: `160/s`.
    pub(super) fn limit(&self) -> String {
        match self.per {
            RateUnit::Second => format!("{}/s", self.count),
            RateUnit::Minute => format!("{}/1m", self.count),
        }
    }
}
