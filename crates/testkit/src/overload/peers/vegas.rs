//! A limit after TCP Vegas.

use super::Inside;
use crate::arrivals::Random;
use crate::overload::{Answer, Class, Front};

/// Keeps the queue that the shortest time seen implies between two bounds.
///
/// With every answer: queue = limit x (1 - shortest / this), and the limit rises while that is short and falls while it
/// is long, by steps that grow with the logarithm of the limit. Every so many answers, whatever time comes next is the
/// new shortest.
#[derive(Clone, Debug)]
pub struct Vegas {
    inside: Inside,
    limit: f64,
    shortest: f64,
    answers: f64,
    next_probe: f64,
    random: Random,
}

impl Default for Vegas {
    fn default() -> Self {
        let inside = Inside::default();
        Self { inside, limit: 20.0, shortest: 0.0, answers: 0.0, next_probe: 0.75, random: Random::new(1) }
    }
}

impl Vegas {
    const MOST: f64 = 1_000.0;
    const PROBE_EVERY: f64 = 30.0;

    fn learn(&mut self, took: f64, in_flight: usize, late: bool) {
        self.answers += 1.0;
        let probes = self.answers >= self.next_probe * Self::PROBE_EVERY * self.limit;
        if probes {
            self.next_probe = 0.5 + self.random.below(1_000) as f64 / 2_000.0;
            self.answers = 0.0;
        }
        if probes || self.shortest == 0.0 || took < self.shortest {
            self.shortest = took;
            return;
        }
        let queue = (self.limit * (1.0 - self.shortest / took)).ceil();
        let step = if self.limit < 100.0 { 1.0 } else { (self.limit.floor().log10() + 1e-9).floor() };
        let change = if late {
            -step
        } else if (in_flight as f64) * 2.0 < self.limit {
            0.0
        } else if queue <= step {
            6.0 * step
        } else if queue < 3.0 * step {
            step
        } else if queue > 6.0 * step {
            -step
        } else {
            0.0
        };
        self.limit = (self.limit + change).clamp(1.0, Self::MOST);
    }
}

impl Front for Vegas {
    fn offer(&mut self, _: u64, who: u32, _: Class) -> Answer {
        self.inside.enter_below(who, self.limit.floor())
    }

    fn finish(&mut self, _: u64, who: u32, took: u64, well: bool) {
        let in_flight = self.inside.finish(who);
        self.learn(took.max(1) as f64, in_flight, !well);
    }

    fn limit(&self) -> Option<f64> {
        Some(self.limit)
    }
}
