//! Human-readable notice of the concurrency limit.

use std::fmt;

use sluicegate_engine::overload::OverloadNotice;
use sluicegate_engine::rule::Signal;

use super::{AutoConcurrency, ConcurrencyState};
use crate::control_law::Observation;

impl ConcurrencyState {
    const fn name(self) -> &'static str {
        match self {
            Self::Learning => "learning",
            Self::Steady => "steady",
            Self::Growing => "growing",
            Self::BackingOff => "backing off",
            Self::Probing => "probing",
        }
    }
}

/// Formats seconds in a suitable unit.
struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            seconds if seconds >= 1.0 => write!(f, "{seconds:.1}s"),
            seconds if seconds >= 0.01 => write!(f, "{:.0}ms", seconds * 1e3),
            seconds => write!(f, "{:.1}ms", seconds * 1e3),
        }
    }
}

impl AutoConcurrency {
    pub(super) fn notice(&self, observation: &Observation<'_>) -> OverloadNotice {
        let throughput = &observation.throughput;
        let limit = self.effective_limit();
        let reason = match (throughput.average, self.unloaded_time) {
            (Some(average), Some(unloaded)) => {
                format!("concurrency limit {limit}, average {}, unloaded {}", Seconds(average), Seconds(unloaded))
            }
            (Some(average), None) => {
                format!("concurrency limit {limit}, average {}, unloaded time not known yet", Seconds(average))
            }
            (None, _) => format!("concurrency limit {limit}, no responses in the last second"),
        };
        let readings = vec![
            (Signal::InFlight, Some(throughput.in_flight as f64)),
            (Signal::AverageResponseTime, throughput.average),
            (Signal::RequestsPerSecond, Some(throughput.arrivals)),
        ];
        OverloadNotice { state: self.state.name(), reason, readings }
    }
}
