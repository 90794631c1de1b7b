//! Gradient2 concurrency limit: ratio of a long to a short RTT average.

use super::InFlightTracker;
use crate::overload::{AdmissionPolicy, Class, PolicyDecision, SECOND};

/// Compares the average RTT of the last second with an average over hundreds of such windows.
///
/// gradient = clamp(1.5 x long / short, 0.5, 1); limit = limit x gradient + 4, smoothed. The long average
/// follows the measured RTT, also under overload.
#[derive(Clone, Debug)]
pub struct Gradient2 {
    in_flight: InFlightTracker,
    limit: f64,
    long_rtt: f64,
    samples: f64,
    window: SampleWindow,
}

#[derive(Clone, Copy, Debug, Default)]
struct SampleWindow {
    ends_at: u64,
    sum: f64,
    count: f64,
    in_flight: usize,
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self {
            in_flight: InFlightTracker::default(),
            limit: 20.0,
            long_rtt: 0.0,
            samples: 0.0,
            window: SampleWindow::default(),
        }
    }
}

impl Gradient2 {
    const MIN_LIMIT: f64 = 20.0;
    const MAX_LIMIT: f64 = 200.0;
    const TOLERANCE: f64 = 1.5;
    const SMOOTHING: f64 = 0.2;
    const QUEUE_SIZE: f64 = 4.0;
    /// Samples in the long average; the first ten are averaged evenly.
    const LONG_WINDOW_SAMPLES: f64 = 600.0;
    const WARM_UP_SAMPLES: f64 = 10.0;
    /// A window with fewer samples is extended.
    const MIN_WINDOW_SAMPLES: f64 = 10.0;

    fn update_limit(&mut self, short_rtt: f64, in_flight: usize) {
        self.samples += 1.0;
        if self.samples <= Self::WARM_UP_SAMPLES {
            self.long_rtt += (short_rtt - self.long_rtt) / self.samples;
        } else {
            self.long_rtt += (short_rtt - self.long_rtt) * 2.0 / (Self::LONG_WINDOW_SAMPLES + 1.0);
        }
        let long = self.long_rtt;
        if long / short_rtt > 2.0 {
            self.long_rtt *= 0.95;
        }
        if (in_flight as f64) < self.limit / 2.0 {
            return;
        }
        let gradient = (Self::TOLERANCE * long / short_rtt).clamp(0.5, 1.0);
        let next = self.limit * gradient + Self::QUEUE_SIZE;
        let smoothed = self.limit * (1.0 - Self::SMOOTHING) + next * Self::SMOOTHING;
        self.limit = smoothed.clamp(Self::MIN_LIMIT, Self::MAX_LIMIT);
    }
}

impl AdmissionPolicy for Gradient2 {
    fn on_arrival(&mut self, _: u64, id: u32, _: Class) -> PolicyDecision {
        self.in_flight.admit_below(id, self.limit.floor())
    }

    fn on_complete(&mut self, now: u64, id: u32, elapsed: u64, _: bool) {
        let in_flight = self.in_flight.complete(id);
        let window = &mut self.window;
        window.sum += elapsed.max(1) as f64;
        window.count += 1.0;
        window.in_flight = window.in_flight.max(in_flight);
        if now >= window.ends_at && window.count >= Self::MIN_WINDOW_SAMPLES {
            let ended = std::mem::take(window);
            window.ends_at = now + SECOND;
            self.update_limit(ended.sum / ended.count, ended.in_flight);
        }
    }

    fn limit(&self) -> Option<f64> {
        Some(self.limit)
    }
}
