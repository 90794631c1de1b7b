//! What the law says about itself, for people.

use std::fmt;

use sluicegate_engine::gate::Notice;
use sluicegate_engine::rule::Signal;

use super::{AutoLaw, State};
use crate::law::Seen;

impl State {
    const fn word(self) -> &'static str {
        match self {
            Self::Learning => "learning",
            Self::Steady => "steady",
            Self::Growing => "growing",
            Self::BackingOff => "backing off",
            Self::Probing => "probing",
        }
    }
}

/// Seconds, in a unit that suits them.
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

impl AutoLaw {
    pub(super) fn notice(&self, seen: &Seen<'_>) -> Notice {
        let passing = &seen.passing;
        let places = self.places();
        let reason = match (passing.average, self.unloaded) {
            (Some(now), Some(unloaded)) => {
                format!("places {places}, average {} against {} unloaded", Seconds(now), Seconds(unloaded))
            }
            (Some(now), None) => format!("places {places}, average {}, unloaded time not known yet", Seconds(now)),
            (None, _) => format!("places {places}, nothing answered in the last second"),
        };
        let readings = vec![
            (Signal::InFlight, Some(passing.in_flight as f64)),
            (Signal::AverageResponseTime, passing.average),
            (Signal::RequestsPerSecond, Some(passing.arrivals)),
        ];
        Notice { state: self.state.word(), reason, readings }
    }
}
