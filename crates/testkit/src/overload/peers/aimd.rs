//! A limit that grows by one and falls by a tenth.

use super::Inside;
use crate::overload::{Answer, Class, Front, SECOND};

/// One place more with every answer while at least half are taken, a tenth fewer with every timeout.
#[derive(Clone, Debug)]
pub struct Aimd {
    inside: Inside,
    limit: f64,
}

impl Default for Aimd {
    fn default() -> Self {
        Self { inside: Inside::default(), limit: 20.0 }
    }
}

impl Aimd {
    const LEAST: f64 = 20.0;
    const MOST: f64 = 200.0;
    const TIMEOUT: u64 = 5 * SECOND;
}

impl Front for Aimd {
    fn offer(&mut self, _: u64, who: u32, _: Class) -> Answer {
        self.inside.enter_below(who, self.limit)
    }

    fn finish(&mut self, _: u64, who: u32, took: u64, well: bool) {
        let in_flight = self.inside.finish(who);
        if !well || took > Self::TIMEOUT {
            self.limit = (self.limit * 0.9).floor();
        } else if in_flight as f64 * 2.0 >= self.limit {
            self.limit += 1.0;
        }
        self.limit = self.limit.clamp(Self::LEAST, Self::MOST);
    }

    fn limit(&self) -> Option<f64> {
        Some(self.limit)
    }
}
