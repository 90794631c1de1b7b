//! Kratos BBR limiter: refuses while the smoothed CPU is busy and in-flight requests exceed the estimated
//! capacity.

use std::collections::VecDeque;

use super::InFlightTracker;
use crate::overload::{AdmissionPolicy, Class, PolicyDecision, SECOND};

/// Active while the CPU is at 80 % or more (smoothed by 5 % every half second), and for a second after
/// refusals began: refuses while more requests are in flight than the maximum responses of any 100 ms bucket
/// of the last ten seconds times the minimum average RTT of any bucket.
#[derive(Clone, Debug, Default)]
pub struct Kratos {
    in_flight: InFlightTracker,
    buckets: VecDeque<KratosBucket>,
    cpu_sum: f64,
    cpu_ticks: f64,
    cpu: f64,
    refusing_since: Option<u64>,
    max_in_flight: f64,
    computed_in: u64,
}

#[derive(Clone, Copy, Debug)]
struct KratosBucket {
    index: u64,
    completions: f64,
    total_millis: f64,
}

impl Kratos {
    const THRESHOLD: f64 = 0.8;
    const DECAY: f64 = 0.95;
    const CPU_SAMPLE_INTERVAL: u64 = SECOND / 2;
    const BUCKET_NANOS: u64 = SECOND / 10;
    const BUCKET_COUNT: u64 = 100;

    /// Uses complete buckets only, and computes once per bucket.
    fn update_max_in_flight(&mut self, now: u64) {
        let index = now / Self::BUCKET_NANOS;
        if self.computed_in == index {
            return;
        }
        self.computed_in = index;
        while self.buckets.front().is_some_and(|it| it.index + Self::BUCKET_COUNT <= index) {
            self.buckets.pop_front();
        }
        let complete = || self.buckets.iter().filter(|it| it.index < index);
        let max_completions = complete().map(|it| it.completions).fold(1.0, f64::max);
        let min_millis = complete().map(|it| it.total_millis / it.completions).fold(f64::INFINITY, f64::min);
        let min_millis = if min_millis.is_finite() { min_millis.ceil().max(1.0) } else { 1.0 };
        self.max_in_flight = (max_completions * min_millis * 10.0 / 1_000.0).floor() + 0.5;
    }

    fn should_refuse(&mut self, now: u64) -> bool {
        self.update_max_in_flight(now);
        let in_flight = self.in_flight.len() as f64;
        let over_limit = in_flight > 1.0 && in_flight > self.max_in_flight;
        if self.cpu >= Self::THRESHOLD {
            if over_limit && self.refusing_since.is_none() {
                self.refusing_since = Some(now);
            }
            return over_limit;
        }
        match self.refusing_since {
            Some(since) if now - since <= SECOND => over_limit,
            _ => {
                self.refusing_since = None;
                false
            }
        }
    }
}

impl AdmissionPolicy for Kratos {
    fn on_arrival(&mut self, now: u64, id: u32, _: Class) -> PolicyDecision {
        if self.should_refuse(now) { PolicyDecision::Refuse } else { self.in_flight.admit_below(id, f64::INFINITY) }
    }

    fn on_complete(&mut self, now: u64, id: u32, elapsed: u64, _: bool) {
        self.in_flight.complete(id);
        let index = now / Self::BUCKET_NANOS;
        let millis = (elapsed / 1_000_000) as f64;
        match self.buckets.back_mut() {
            Some(it) if it.index == index => {
                it.completions += 1.0;
                it.total_millis += millis;
            }
            _ => self.buckets.push_back(KratosBucket { index, completions: 1.0, total_millis: millis }),
        }
    }

    fn on_tick(&mut self, now: u64, cpu: f64) {
        self.cpu_sum += cpu;
        self.cpu_ticks += 1.0;
        if now.is_multiple_of(Self::CPU_SAMPLE_INTERVAL) {
            let sample = self.cpu_sum / self.cpu_ticks;
            self.cpu = self.cpu * Self::DECAY + sample * (1.0 - Self::DECAY);
            (self.cpu_sum, self.cpu_ticks) = (0.0, 0.0);
        }
    }

    fn limit(&self) -> Option<f64> {
        Some(self.max_in_flight)
    }
}
