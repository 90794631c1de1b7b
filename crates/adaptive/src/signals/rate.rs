//! From counters to rates.
//!
//! Counters of the kernel only ever grow, so what happened in a tick is the difference to the tick before. Where there
//! is none yet, or a counter went backwards because whatever it belonged to was replaced, the rate is not known for
//! one tick. Where no time has passed since the last look, what was known then still is.
//!
//! **Smoothing.** A tick is short: a quarter of a second holds 25 ticks of `/proc/stat` per core, and two or three
//! periods of a quota. One such number jumps by several points under a steady load. A moving average with a time
//! constant of half a second evens that out, and still shows four fifths of a step within 0.8 s. More would be late:
//! by the time a slow average has noticed, the queue is there.

use std::time::Duration;

use sluicegate_engine::Timestamp;

use crate::readings::Reading;

const SMOOTHED_OVER: Duration = Duration::from_millis(500);

impl Reading {
    /// Of what is there at once, or cannot be read.
    pub(super) fn at_once(value: Option<f64>) -> Self {
        value.map_or(Self::Unreadable, Self::Value)
    }

    pub(super) fn map(self, change: impl FnOnce(f64) -> f64) -> Self {
        match self {
            Self::Value(value) => Self::Value(change(value)),
            other => other,
        }
    }

    /// The higher of two, which is known once both are.
    pub(super) fn highest(self, other: Self) -> Self {
        match (self, other) {
            (Self::Value(one), Self::Value(other)) => Self::Value(one.max(other)),
            (Self::Unreadable, _) | (_, Self::Unreadable) => Self::Unreadable,
            _ => Self::NotYet,
        }
    }
}

/// A pair of counters and how they grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    last: Option<Look>,
    value: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    at: Timestamp,
    part: f64,
    rest: f64,
}

impl Rate {
    /// How much a counter grows per second.
    pub(super) fn per_second(&mut self, now: Timestamp, count: Option<f64>) -> Reading {
        let look = count.map(|part| Look { at: now, part, rest: 0.0 });
        self.turn(now, look, |grown, _, seconds| Some(grown / seconds))
    }

    /// How much a counter grows in proportion to itself and another. While neither grows: `at_rest`, or what it was.
    pub(super) fn share(&mut self, now: Timestamp, part_and_rest: Option<(f64, f64)>, at_rest: Option<f64>) -> Reading {
        let look = part_and_rest.map(|(part, rest)| Look { at: now, part, rest });
        self.turn(now, look, |part, rest, _| {
            // The time spent waiting for disks is known to step back a little on real kernels.
            let all = part + rest.max(0.0);
            if all > 0.0 { Some(part / all) } else { at_rest }
        })
    }

    fn turn(&mut self, now: Timestamp, look: Option<Look>, of: impl FnOnce(f64, f64, f64) -> Option<f64>) -> Reading {
        let Some(look) = look else {
            *self = Self::default();
            return Reading::Unreadable;
        };
        let Some(last) = self.last else {
            self.last = Some(look);
            return Reading::NotYet;
        };
        let seconds = now.saturating_since(last.at).as_secs_f64();
        if seconds <= 0.0 {
            // A clock that stepped back begins anew from there.
            self.last = if now < last.at { Some(look) } else { self.last };
        } else {
            self.last = Some(look);
            if look.part < last.part {
                self.value = None;
            } else if let Some(fresh) = of(look.part - last.part, look.rest - last.rest, seconds) {
                let weight = 1.0 - (-seconds / SMOOTHED_OVER.as_secs_f64()).exp();
                self.value = Some(self.value.map_or(fresh, |value| value + (fresh - value) * weight));
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
    fn a_rate_is_the_difference_of_two_looks() {
        let mut rate = Rate::default();
        assert_eq!(rate.per_second(at(1_000), Some(10.0)), Reading::NotYet);
        assert_eq!(rate.per_second(at(1_250), Some(35.0)), Reading::Value(100.0));
        assert_eq!(rate.per_second(at(1_250), Some(99.0)), Reading::Value(100.0), "no time has passed");
        assert_eq!(rate.per_second(at(1_500), Some(60.0)), Reading::Value(100.0), "and the count is not lost");
    }

    #[test]
    fn a_counter_that_went_back_is_unknown_once() {
        let mut rate = Rate::default();
        rate.per_second(at(0), Some(1_000.0));
        assert_eq!(rate.per_second(at(250), Some(1_025.0)), Reading::Value(100.0));
        assert_eq!(rate.per_second(at(500), Some(5.0)), Reading::NotYet);
        assert_eq!(rate.per_second(at(750), Some(10.0)), Reading::Value(20.0), "nothing of the old one is left");
        assert_eq!(rate.per_second(at(1_000), None), Reading::Unreadable);
        assert_eq!(rate.per_second(at(1_250), Some(20.0)), Reading::NotYet);
    }

    #[test]
    fn a_clock_that_steps_back_begins_anew() {
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
        let mut seen = 0.0;
        for tick in 2..=4 {
            seen = rate.per_second(at(tick * 250), Some((tick - 1) as f64 * 0.25)).value().unwrap();
        }
        assert!((0.75..0.85).contains(&seen), "{seen}");
    }

    #[test]
    fn shares_rest_as_they_are_told() {
        let mut used = Rate::default();
        used.share(at(0), Some((0.0, 0.0)), None);
        assert_eq!(used.share(at(250), Some((5.0, 15.0)), None), Reading::Value(0.25));
        assert_eq!(used.share(at(500), Some((5.0, 15.0)), None), Reading::Value(0.25));
        let mut throttled = Rate::default();
        throttled.share(at(0), Some((3.0, 7.0)), Some(0.0));
        assert_eq!(throttled.share(at(250), Some((3.0, 7.0)), Some(0.0)), Reading::Value(0.0));
    }
}
