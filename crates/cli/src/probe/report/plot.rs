//! What is drawn, before it is known with what: two panels over the same rates, their axes and dots.

use std::time::Duration;

use super::super::figures::{latency, rate};
use super::super::verdict::{Judged, Verdict};

/// How many marks an axis has, about.
const MARKS: f64 = 4.0;

/// An axis from low to high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    /// Each step of the axis is so many times the one before, instead of so much more.
    is_logarithmic: bool,
}

/// A step in a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dot {
    /// From 0 to 1, left to right.
    pub(super) x: f64,
    /// From 0 to 1, bottom to top.
    pub(super) y: f64,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Good,
    Bad,
    Unclear,
}

/// Something against the offered rate.
pub(super) struct Panel {
    pub(super) title: &'static str,
    /// From left to right.
    pub(super) dots: Vec<Dot>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// What it should be, from the left edge to the right one.
    pub(super) ideal: Option<(f64, f64)>,
    pub(super) write: fn(f64) -> String,
}

impl Axis {
    /// From zero to a round number.
    fn up_to(most: f64) -> Self {
        let step = round_step(most);
        Self { low: 0.0, high: (most / step).ceil().max(1.0) * step, is_logarithmic: false }
    }

    /// From one power of ten to another around these.
    fn around(values: impl Iterator<Item = f64> + Clone) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min).clamp(1e-6, 1e6);
        let most = values.fold(least, f64::max);
        let low = 10_f64.powf(least.log10().floor());
        let high = 10_f64.powf(most.log10().ceil()).max(low * 10.0);
        Self { low, high, is_logarithmic: true }
    }

    /// Where a value is: 0 at the low end, 1 at the high one.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }

    /// Round numbers along it.
    pub(super) fn marks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            (0..=decades).map(|nth| self.low * 10_f64.powi(nth)).collect()
        } else {
            let step = round_step(self.high);
            let many = (self.high / step).round() as u32;
            (0..=many).map(|nth| f64::from(nth) * step).collect()
        }
    }
}

/// 1, 2 or 5, and zeros.
fn round_step(most: f64) -> f64 {
    let rough = most.max(1.0) / MARKS;
    let unit = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * unit >= rough * 0.999);
    times.unwrap_or(10.0) * unit
}

/// Good answers and p99, both against the offered rate.
pub(super) fn panels(steps: &[Judged], most_p99: Duration) -> [Panel; 2] {
    let mut steps: Vec<&Judged> = steps.iter().collect();
    steps.sort_by(|one, other| one.step.offered.total_cmp(&other.step.offered));
    let x = Axis::up_to(steps.iter().map(|judged| judged.step.offered).fold(0.0, f64::max));
    let seconds = |judged: &&&Judged| judged.step.p99.map(|p99| p99.as_secs_f64());
    let times = steps.iter().filter_map(|judged| seconds(&judged)).chain([most_p99.as_secs_f64()]);
    let slow = Axis::around(times.collect::<Vec<_>>().into_iter());
    let kind = |judged: &Judged| match judged.verdict {
        Verdict::Good => Kind::Good,
        Verdict::Bad(_) => Kind::Bad,
        Verdict::Unclear(_) => Kind::Unclear,
    };
    let dot = |judged: &Judged, y| Dot { x: x.at(judged.step.offered), y, kind: kind(judged) };
    let bound = slow.at(most_p99.as_secs_f64());
    [
        Panel {
            title: "good answers/s against offered/s",
            dots: steps.iter().map(|judged| dot(judged, x.at(judged.step.goodput))).collect(),
            x,
            y: x,
            ideal: Some((0.0, 1.0)),
            write: rate,
        },
        Panel {
            title: "p99 against offered/s",
            dots: steps.iter().filter_map(|judged| Some(dot(judged, slow.at(seconds(&judged)?)))).collect(),
            x,
            y: slow,
            ideal: Some((bound, bound)),
            write: |seconds| latency(Duration::from_secs_f64(seconds)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_and_are_marked_at_round_numbers() {
        for (most, high) in [(0.0, 0.5), (10.0, 10.0), (33.8, 40.0), (225.0, 300.0), (100_000.0, 100_000.0)] {
            let axis = Axis::up_to(most);
            assert_eq!(axis.high, high, "{most}");
            assert!((2..=6).contains(&axis.marks().len()), "{most}: {:?}", axis.marks());
            assert_eq!(axis.marks().last().copied(), Some(axis.high), "{most}: {:?}", axis.marks());
        }
    }

    #[test]
    fn logarithmic_axes_go_by_tens() {
        let axis = Axis::around([0.004, 0.3].into_iter());
        assert_eq!(axis.marks().len(), 4);
        assert!((axis.at(0.01) - 1.0 / 3.0).abs() < 1e-9 && axis.at(0.0) == 0.0 && axis.at(9.0) == 1.0);
        let narrow = Axis::around([0.01].into_iter());
        assert_eq!(narrow.marks().len(), 2, "it has a length");
    }
}
