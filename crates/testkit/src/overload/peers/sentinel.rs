//! Sentinel system rule: refuses while the CPU is busy and in-flight requests exceed the estimated capacity.

use std::collections::VecDeque;

use super::InFlightTracker;
use crate::overload::{AdmissionPolicy, Class, PolicyDecision, SECOND};

/// While the CPU, sampled once a second, is above 80 %: refuses if more requests are in flight than the
/// maximum throughput of the last two half-second buckets times their minimum RTT.
///
/// The original applies this check to the load average and refuses every request on CPU alone; this variant
/// is more favourable to it.
#[derive(Clone, Debug)]
pub struct Sentinel {
    in_flight: InFlightTracker,
    buckets: VecDeque<SentinelBucket>,
    cpu_sum: f64,
    cpu_ticks: f64,
    cpu: f64,
    next_cpu_sample: u64,
}

#[derive(Clone, Copy, Debug)]
struct SentinelBucket {
    index: u64,
    completions: f64,
    min_millis: f64,
}

impl Default for Sentinel {
    fn default() -> Self {
        let (in_flight, buckets) = (InFlightTracker::default(), VecDeque::new());
        Self { in_flight, buckets, cpu_sum: 0.0, cpu_ticks: 0.0, cpu: 0.0, next_cpu_sample: SECOND }
    }
}

impl Sentinel {
    const THRESHOLD: f64 = 0.8;
    const BUCKET_NANOS: u64 = SECOND / 2;
    const MAX_RTT_MILLIS: f64 = 5_000.0;

    fn drop_expired(&mut self, now: u64) {
        let index = now / Self::BUCKET_NANOS;
        while self.buckets.front().is_some_and(|bucket| bucket.index + 2 <= index) {
            self.buckets.pop_front();
        }
    }

    fn max_in_flight(&self) -> f64 {
        let max_completions = self.buckets.iter().map(|bucket| bucket.completions).fold(0.0, f64::max) * 2.0;
        let min_millis = self.buckets.iter().map(|bucket| bucket.min_millis).fold(Self::MAX_RTT_MILLIS, f64::min);
        max_completions * min_millis.max(1.0) / 1_000.0
    }
}

impl AdmissionPolicy for Sentinel {
    fn on_arrival(&mut self, now: u64, id: u32, _: Class) -> PolicyDecision {
        self.drop_expired(now);
        let in_flight = self.in_flight.len() as f64;
        if self.cpu > Self::THRESHOLD && in_flight > 1.0 && in_flight > self.max_in_flight() {
            return PolicyDecision::Refuse;
        }
        self.in_flight.admit_below(id, f64::INFINITY)
    }

    fn on_complete(&mut self, now: u64, id: u32, elapsed: u64, _: bool) {
        self.in_flight.complete(id);
        self.drop_expired(now);
        let index = now / Self::BUCKET_NANOS;
        let millis = (elapsed / 1_000_000) as f64;
        match self.buckets.back_mut() {
            Some(bucket) if bucket.index == index => {
                bucket.completions += 1.0;
                bucket.min_millis = bucket.min_millis.min(millis);
            }
            _ => self.buckets.push_back(SentinelBucket { index, completions: 1.0, min_millis: millis }),
        }
    }

    fn on_tick(&mut self, now: u64, cpu: f64) {
        self.cpu_sum += cpu;
        self.cpu_ticks += 1.0;
        if now >= self.next_cpu_sample {
            self.cpu = self.cpu_sum / self.cpu_ticks;
            (self.cpu_sum, self.cpu_ticks) = (0.0, 0.0);
            self.next_cpu_sample += SECOND;
        }
    }

    fn limit(&self) -> Option<f64> {
        Some(self.max_in_flight())
    }
}
