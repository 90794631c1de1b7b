//! Refuses while a smoothed CPU is busy and more are inside than it can serve without a queue.

use std::collections::VecDeque;

use super::Inside;
use crate::overload::{Answer, Class, Front, SECOND};

/// While the CPU is above four fifths, smoothed by a twentieth every half second, and for a second after refusing
/// began: refuses as long as more are inside than the most answers of any tenth of the last ten seconds times the
/// least average time in any.
#[derive(Clone, Debug, Default)]
pub struct Kratos {
    inside: Inside,
    tenths: VecDeque<Tenth>,
    cpu_sum: f64,
    cpu_ticks: f64,
    cpu: f64,
    refusing_since: Option<u64>,
    most_inside: f64,
    worked_out_in: u64,
}

#[derive(Clone, Copy, Debug)]
struct Tenth {
    number: u64,
    answers: f64,
    millis: f64,
}

impl Kratos {
    const THRESHOLD: f64 = 0.8;
    const DECAY: f64 = 0.95;
    const READING: u64 = SECOND / 2;
    const TENTH: u64 = SECOND / 10;
    const TENTHS: u64 = 100;

    /// Of whole tenths only, and worked out once in each.
    fn work_out(&mut self, now: u64) {
        let number = now / Self::TENTH;
        if self.worked_out_in == number {
            return;
        }
        self.worked_out_in = number;
        while self.tenths.front().is_some_and(|it| it.number + Self::TENTHS <= number) {
            self.tenths.pop_front();
        }
        let whole = || self.tenths.iter().filter(|it| it.number < number);
        let most = whole().map(|it| it.answers).fold(1.0, f64::max);
        let least = whole().map(|it| it.millis / it.answers).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { least.ceil().max(1.0) } else { 1.0 };
        self.most_inside = (most * least * 10.0 / 1_000.0).floor() + 0.5;
    }

    fn refuses(&mut self, now: u64) -> bool {
        self.work_out(now);
        let inside = self.inside.len() as f64;
        let crowded = inside > 1.0 && inside > self.most_inside;
        if self.cpu >= Self::THRESHOLD {
            if crowded && self.refusing_since.is_none() {
                self.refusing_since = Some(now);
            }
            return crowded;
        }
        match self.refusing_since {
            Some(since) if now - since <= SECOND => crowded,
            _ => {
                self.refusing_since = None;
                false
            }
        }
    }
}

impl Front for Kratos {
    fn offer(&mut self, now: u64, who: u32, _: Class) -> Answer {
        if self.refuses(now) { Answer::Refuse } else { self.inside.enter_below(who, f64::INFINITY) }
    }

    fn finish(&mut self, now: u64, who: u32, took: u64, _: bool) {
        self.inside.finish(who);
        let number = now / Self::TENTH;
        let millis = (took / 1_000_000) as f64;
        match self.tenths.back_mut() {
            Some(it) if it.number == number => {
                it.answers += 1.0;
                it.millis += millis;
            }
            _ => self.tenths.push_back(Tenth { number, answers: 1.0, millis }),
        }
    }

    fn tick(&mut self, now: u64, cpu: f64) {
        self.cpu_sum += cpu;
        self.cpu_ticks += 1.0;
        if now.is_multiple_of(Self::READING) {
            let reading = self.cpu_sum / self.cpu_ticks;
            self.cpu = self.cpu * Self::DECAY + reading * (1.0 - Self::DECAY);
            (self.cpu_sum, self.cpu_ticks) = (0.0, 0.0);
        }
    }

    fn limit(&self) -> Option<f64> {
        Some(self.most_inside)
    }
}
