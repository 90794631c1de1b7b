//! Refuses while the CPU is busy and more are inside than it can serve without a queue.

use std::collections::VecDeque;

use super::Inside;
use crate::overload::{Answer, Class, Front, SECOND};

/// While the CPU, read once a second, is above four fifths: refuses as long as more are inside than the most answers
/// of the last second's halves, per second, times the least time in it.
///
/// (The original reads the load average there; on CPU alone it refuses everybody. This is the kinder reading.)
#[derive(Clone, Debug)]
pub struct Sentinel {
    inside: Inside,
    halves: VecDeque<Half>,
    cpu_sum: f64,
    cpu_ticks: f64,
    cpu: f64,
    next_reading: u64,
}

#[derive(Clone, Copy, Debug)]
struct Half {
    number: u64,
    answers: f64,
    least_millis: f64,
}

impl Default for Sentinel {
    fn default() -> Self {
        let (inside, halves) = (Inside::default(), VecDeque::new());
        Self { inside, halves, cpu_sum: 0.0, cpu_ticks: 0.0, cpu: 0.0, next_reading: SECOND }
    }
}

impl Sentinel {
    const THRESHOLD: f64 = 0.8;
    const HALF: u64 = SECOND / 2;
    const LONGEST_MILLIS: f64 = 5_000.0;

    fn forget(&mut self, now: u64) {
        let number = now / Self::HALF;
        while self.halves.front().is_some_and(|half| half.number + 2 <= number) {
            self.halves.pop_front();
        }
    }

    fn most_inside(&self) -> f64 {
        let most = self.halves.iter().map(|half| half.answers).fold(0.0, f64::max) * 2.0;
        let least = self.halves.iter().map(|half| half.least_millis).fold(Self::LONGEST_MILLIS, f64::min);
        most * least.max(1.0) / 1_000.0
    }
}

impl Front for Sentinel {
    fn offer(&mut self, now: u64, who: u32, _: Class) -> Answer {
        self.forget(now);
        let inside = self.inside.len() as f64;
        if self.cpu > Self::THRESHOLD && inside > 1.0 && inside > self.most_inside() {
            return Answer::Refuse;
        }
        self.inside.enter_below(who, f64::INFINITY)
    }

    fn finish(&mut self, now: u64, who: u32, took: u64, _: bool) {
        self.inside.finish(who);
        self.forget(now);
        let number = now / Self::HALF;
        let millis = (took / 1_000_000) as f64;
        match self.halves.back_mut() {
            Some(half) if half.number == number => {
                half.answers += 1.0;
                half.least_millis = half.least_millis.min(millis);
            }
            _ => self.halves.push_back(Half { number, answers: 1.0, least_millis: millis }),
        }
    }

    fn tick(&mut self, now: u64, cpu: f64) {
        self.cpu_sum += cpu;
        self.cpu_ticks += 1.0;
        if now >= self.next_reading {
            self.cpu = self.cpu_sum / self.cpu_ticks;
            (self.cpu_sum, self.cpu_ticks) = (0.0, 0.0);
            self.next_reading += SECOND;
        }
    }

    fn limit(&self) -> Option<f64> {
        Some(self.most_inside())
    }
}
