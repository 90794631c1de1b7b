//! What was found out, in every form it is told in.

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
pub(super) use self::json::everything;
pub(super) use self::rule::rule;
pub(super) use self::summary::report;
pub(super) use self::svg::picture;
pub(super) use self::table::{line, table};
use super::search::{self, End};
use super::verdict::{Cause, Judged, Verdict};

/// Everything that is known when the last step is over.
pub(super) struct Findings {
    /// The URL.
    pub(super) target: String,
    pub(super) method: String,
    pub(super) path: String,
    /// Where it was sent.
    pub(super) address: Option<IpAddr>,
    /// In the order they were made.
    pub(super) steps: Vec<Judged>,
    pub(super) end: End,
    /// The p99 that a good step may have.
    pub(super) most_p99: Duration,
    /// How far below the peak the limit is to be: a share of one.
    pub(super) buffer: f64,
    pub(super) took: Duration,
}

/// A limit below the peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) count: u64,
    pub(super) per: Per,
    /// How many are under way at once at that rate, by Little's law: rate times latency (p99), rounded up.
    pub(super) at_once: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Per {
    Second,
    /// For peaks so low that a second has less than one.
    Minute,
}

impl Findings {
    pub(super) fn peak(&self) -> Option<&Judged> {
        search::peak(&self.steps)
    }

    /// The lowest rate beyond the peak that was not good.
    pub(super) fn beyond(&self) -> Option<&Judged> {
        search::beyond(&self.steps)
    }

    /// The rate of a limit that stands before the service already: what it let through.
    pub(super) fn limit_in_force(&self) -> Option<f64> {
        let limited = |judged: &&Judged| matches!(judged.verdict, Verdict::Bad(Cause::Limited { .. }));
        let mut passed: Vec<f64> = self.steps.iter().filter(limited).map(|judged| judged.step.goodput).collect();
        passed.sort_by(f64::total_cmp);
        passed.get(passed.len() / 2).copied()
    }

    /// A limit below the peak, if there is one.
    pub(super) fn proposal(&self) -> Option<Proposal> {
        let peak = &self.peak()?.step;
        let rate = peak.offered * (1.0 - self.buffer);
        // What is a whole number but for the arithmetic stays that number.
        let whole = |number: f64| (number + 1e-6).floor();
        let (count, per) =
            if whole(rate) >= 1.0 { (whole(rate), Per::Second) } else { (whole(rate * 60.0).max(1.0), Per::Minute) };
        let at_once = (rate * peak.p99.unwrap_or_default().as_secs_f64() - 1e-6).ceil().max(1.0);
        Some(Proposal { count: count as u64, per, at_once: at_once as u64 })
    }

    /// The status that most good answers had, if that was not a success.
    pub(super) fn odd_status(&self) -> Option<u16> {
        let (status, _) = self.peak()?.step.statuses.iter().max_by_key(|(_, many)| **many)?;
        (!(200..300).contains(status)).then_some(*status)
    }

    /// Whether the target shares the machine with the load generator.
    pub(super) fn is_here(&self) -> bool {
        self.address.is_some_and(|address| address.to_canonical().is_loopback())
    }
}

impl Proposal {
    /// As rules have it: `160/s`.
    pub(super) fn limit(&self) -> String {
        match self.per {
            Per::Second => format!("{}/s", self.count),
            Per::Minute => format!("{}/1m", self.count),
        }
    }
}
