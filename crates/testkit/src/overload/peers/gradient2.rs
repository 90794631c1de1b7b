//! A limit by the ratio of two averages.

use super::Inside;
use crate::overload::{Answer, Class, Front, SECOND};

/// Compares the average time of the last second with an average over hundreds of such.
///
/// gradient = clamp(1.5 x long / short, 0.5, 1); limit = limit x gradient + 4, smoothed. What it takes for the usual
/// time follows whatever the time has been: under overload too.
#[derive(Clone, Debug)]
pub struct Gradient2 {
    inside: Inside,
    limit: f64,
    long: f64,
    samples: f64,
    window: Window,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    ends: u64,
    sum: f64,
    count: f64,
    in_flight: usize,
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self { inside: Inside::default(), limit: 20.0, long: 0.0, samples: 0.0, window: Window::default() }
    }
}

impl Gradient2 {
    const LEAST: f64 = 20.0;
    const MOST: f64 = 200.0;
    const TOLERANCE: f64 = 1.5;
    const SMOOTHING: f64 = 0.2;
    const QUEUE: f64 = 4.0;
    /// So many samples make the long average; the first ten are averaged evenly.
    const LONG: f64 = 600.0;
    const WARM_UP: f64 = 10.0;
    /// A window with fewer samples is not used.
    const FEWEST: f64 = 10.0;

    fn learn(&mut self, short: f64, in_flight: usize) {
        self.samples += 1.0;
        if self.samples <= Self::WARM_UP {
            self.long += (short - self.long) / self.samples;
        } else {
            self.long += (short - self.long) * 2.0 / (Self::LONG + 1.0);
        }
        let long = self.long;
        if long / short > 2.0 {
            self.long *= 0.95;
        }
        if (in_flight as f64) < self.limit / 2.0 {
            return;
        }
        let gradient = (Self::TOLERANCE * long / short).clamp(0.5, 1.0);
        let next = self.limit * gradient + Self::QUEUE;
        let smoothed = self.limit * (1.0 - Self::SMOOTHING) + next * Self::SMOOTHING;
        self.limit = smoothed.clamp(Self::LEAST, Self::MOST);
    }
}

impl Front for Gradient2 {
    fn offer(&mut self, _: u64, who: u32, _: Class) -> Answer {
        self.inside.enter_below(who, self.limit.floor())
    }

    fn finish(&mut self, now: u64, who: u32, took: u64, _: bool) {
        let in_flight = self.inside.finish(who);
        let window = &mut self.window;
        window.sum += took.max(1) as f64;
        window.count += 1.0;
        window.in_flight = window.in_flight.max(in_flight);
        if now >= window.ends && window.count >= Self::FEWEST {
            let ended = std::mem::take(window);
            window.ends = now + SECOND;
            self.learn(ended.sum / ended.count, ended.in_flight);
        }
    }

    fn limit(&self) -> Option<f64> {
        Some(self.limit)
    }
}
