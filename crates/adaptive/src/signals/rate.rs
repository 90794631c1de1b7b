//! Rates from kernel counters.
//!
//! Kernel counters only grow, so the change in a tick is the difference to the previous sample. Without one, or
//! after a counter went backwards because its owner was replaced, the rate is unknown for one tick. If no time
//! has passed since the last sample, the last value is returned.
//!
//! **Smoothing.** A tick is short: a quarter of a second holds 25 ticks of `/proc/stat` per core, and two or
//! three quota periods. Such a value jumps by several points under a steady load. A moving average with a time
//! constant of half a second smooths that, and still shows four fifths of a step within 0.8 s. A slower average
//! would notice an overload only after the queue has built up.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use crate::readings::Reading;

const SMOOTHING_TIME: Duration = Duration::from_millis(500);

impl Reading {
    /// Converts a value that is known at once or unreadable.
    pub(super) fn from_option(value: Option<f64>) -> Self {
        value.map_or(Self::Unreadable, Self::Value)
    }

    pub(super) fn map(self, change: impl FnOnce(f64) -> f64) -> Self {
        match self {
            Self::Value(value) => Self::Value(change(value)),
            other => other,
        }
    }

    /// Returns the higher of two readings, known once both are.
    pub(super) fn max(self, other: Self) -> Self {
        match (self, other) {
            (Self::Value(one), Self::Value(other)) => Self::Value(one.max(other)),
            (Self::Unreadable, _) | (_, Self::Unreadable) => Self::Unreadable,
            _ => Self::NotYet,
        }
    }
}

/// Rate of change of a pair of counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    last: Option<CounterSample>,
    value: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct CounterSample {
    at: Timestamp,
    part: f64,
    other: f64,
}

impl Rate {
    /// Growth of a counter per second.
    pub(super) fn per_second(&mut self, now: Timestamp, count: Option<f64>) -> Reading {
        let sample = count.map(|part| CounterSample { at: now, part, other: 0.0 });
        self.update(now, sample, |grown, _, seconds| Some(grown / seconds))
    }

    /// Growth of a counter relative to itself and another. If neither grows: `idle_value`, or the last value.
    pub(super) fn share(
        &mut self,
        now: Timestamp,
        part_and_other: Option<(f64, f64)>,
        idle_value: Option<f64>,
    ) -> Reading {
        let sample = part_and_other.map(|(part, rest)| CounterSample { at: now, part, other: rest });
        self.update(now, sample, |part, rest, _| {
            // On real kernels iowait is known to step back slightly.
            let all = part + rest.max(0.0);
            if all > 0.0 { Some(part / all) } else { idle_value }
        })
    }

    fn update(
        &mut self,
        now: Timestamp,
        sample: Option<CounterSample>,
        compute: impl FnOnce(f64, f64, f64) -> Option<f64>,
    ) -> Reading {
        let Some(sample) = sample else {
            *self = Self::default();
            return Reading::Unreadable;
        };
        let Some(last) = self.last else {
            self.last = Some(sample);
            return Reading::NotYet;
        };
        let seconds = now.saturating_since(last.at).as_secs_f64();
        if seconds <= 0.0 {
            // After the clock stepped back, restart from there.
            self.last = if now < last.at { Some(sample) } else { self.last };
        } else {
            self.last = Some(sample);
            if sample.part < last.part {
                self.value = None;
            } else if let Some(current) = compute(sample.part - last.part, sample.other - last.other, seconds) {
                let weight = 1.0 - (-seconds / SMOOTHING_TIME.as_secs_f64()).exp();
                self.value = Some(self.value.map_or(current, |value| value + (current - value) * weight));
            }
        }
        self.value.map_or(Reading::NotYet, Reading::Value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_rate_is_the_difference_of_two_samples() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(at(1_000), Some(10.0)), Reading::NotYet);
        assert_eq!(rate.per_second(at(1_250), Some(35.0)), Reading::Value(100.0));
        assert_eq!(rate.per_second(at(1_250), Some(99.0)), Reading::Value(100.0), "no time has passed");
        assert_eq!(rate.per_second(at(1_500), Some(60.0)), Reading::Value(100.0), "the count is not lost");
    }

    #[test]
    fn a_counter_reset_is_unknown_for_one_sample() {
        let mut rate = Rate::default();
        rate.per_second(at(0), Some(1_000.0));
        assert_eq!(rate.per_second(at(250), Some(1_025.0)), Reading::Value(100.0));
        assert_eq!(rate.per_second(at(500), Some(5.0)), Reading::NotYet);
        assert_eq!(rate.per_second(at(750), Some(10.0)), Reading::Value(20.0), "the old counter does not count");
        assert_eq!(rate.per_second(at(1_000), None), Reading::Unreadable);
        assert_eq!(rate.per_second(at(1_250), Some(20.0)), Reading::NotYet);
    }

    #[test]
    fn a_clock_step_back_restarts_from_there() {
        let mut rate = Rate::default();
        rate.per_second(at(9_000), Some(0.0));
        assert_eq!(rate.per_second(at(10_000), Some(50.0)), Reading::Value(50.0));
        assert_eq!(rate.per_second(at(4_000), Some(60.0)), Reading::Value(50.0));
        assert_eq!(rate.per_second(at(5_000), Some(110.0)), Reading::Value(50.0));
    }

    #[test]
    fn a_step_shows_within_a_second() {
        let mut rate = Rate::default();
        rate.per_second(at(0), Some(0.0));
        assert_eq!(rate.per_second(at(250), Some(0.0)), Reading::Value(0.0));
        let mut value = 0.0;
        for tick in 2..=4 {
            value = rate.per_second(at(tick * 250), Some((tick - 1) as f64 * 0.25)).value().unwrap();
        }
        assert!((0.75..0.85).contains(&value), "{value}");
    }

    #[test]
    fn an_idle_share_uses_the_idle_value() {
        let mut used = Rate::default();
        used.share(at(0), Some((0.0, 0.0)), None);
        assert_eq!(used.share(at(250), Some((5.0, 15.0)), None), Reading::Value(0.25));
        assert_eq!(used.share(at(500), Some((5.0, 15.0)), None), Reading::Value(0.25));
        let mut throttled = Rate::default();
        throttled.share(at(0), Some((3.0, 7.0)), Some(0.0));
        assert_eq!(throttled.share(at(250), Some((3.0, 7.0)), Some(0.0)), Reading::Value(0.0));
    }
}
