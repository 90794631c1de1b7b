//! Plot model, independent of the output format: two panels over the same rates, with axes and dots.

use std::time::Duration;

use super::super::criteria::{JudgedStep, StepVerdict};
use super::super::format::{latency, rate};

/// Approximate number of ticks of an axis.
const TARGET_TICKS: f64 = 4.0;

/// An axis from low to high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    /// True for a logarithmic axis, false for a linear one.
    is_logarithmic: bool,
}

/// A step in a panel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Dot {
    /// From 0 to 1, left to right.
    pub(super) x: f64,
    /// From 0 to 1, bottom to top.
    pub(super) y: f64,
    pub(super) kind: DotKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DotKind {
    Good,
    Bad,
    Unclear,
}

/// A value plotted against the offered rate.
pub(super) struct Panel {
    pub(super) title: &'static str,
    /// Dots from left to right.
    pub(super) dots: Vec<Dot>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Ideal values at the left and right edge.
    pub(super) ideal: Option<(f64, f64)>,
    pub(super) format: fn(f64) -> String,
}

impl Axis {
    /// Axis from zero to a round number.
    fn linear(max: f64) -> Self {
        let step = round_interval(max);
        Self { low: 0.0, high: (max / step).ceil().max(1.0) * step, is_logarithmic: false }
    }

    /// Axis between the powers of ten around these values.
    fn logarithmic(values: impl Iterator<Item = f64> + Clone) -> Self {
        let min = values.clone().fold(f64::INFINITY, f64::min).clamp(1e-6, 1e6);
        let max = values.fold(min, f64::max);
        let low = 10_f64.powf(min.log10().floor());
        let high = 10_f64.powf(max.log10().ceil()).max(low * 10.0);
        Self { low, high, is_logarithmic: true }
    }

    /// Position of a value: 0 at the low end, 1 at the high end.
    pub(super) fn position(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(0.0, 1.0)
    }

    /// Tick values: round numbers.
    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.is_logarithmic {
            let decades = (self.high / self.low).log10().round() as i32;
            (0..=decades).map(|index| self.low * 10_f64.powi(index)).collect()
        } else {
            let step = round_interval(self.high);
            let count = (self.high / step).round() as u32;
            (0..=count).map(|index| f64::from(index) * step).collect()
        }
    }
}

/// Tick interval: 1, 2 or 5 times a power of ten.
fn round_interval(max: f64) -> f64 {
    let rough = max.max(1.0) / TARGET_TICKS;
    let unit = 10_f64.powf(rough.log10().floor());
    let times = [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * unit >= rough * 0.999);
    times.unwrap_or(10.0) * unit
}

/// Goodput and p99 against the offered rate.
pub(super) fn panels(steps: &[JudgedStep], max_p99: Duration) -> [Panel; 2] {
    let mut steps: Vec<&JudgedStep> = steps.iter().collect();
    steps.sort_by(|one, other| one.step.offered.total_cmp(&other.step.offered));
    let x = Axis::linear(steps.iter().map(|judged| judged.step.offered).fold(0.0, f64::max));
    let seconds = |judged: &&&JudgedStep| judged.step.p99.map(|p99| p99.as_secs_f64());
    let times = steps.iter().filter_map(|judged| seconds(&judged)).chain([max_p99.as_secs_f64()]);
    let latency_axis = Axis::logarithmic(times.collect::<Vec<_>>().into_iter());
    let kind = |judged: &JudgedStep| match judged.verdict {
        StepVerdict::Good => DotKind::Good,
        StepVerdict::Bad(_) => DotKind::Bad,
        StepVerdict::Unclear(_) => DotKind::Unclear,
    };
    let dot = |judged: &JudgedStep, y| Dot { x: x.position(judged.step.offered), y, kind: kind(judged) };
    let limit = latency_axis.position(max_p99.as_secs_f64());
    [
        Panel {
            title: "good responses/s vs offered/s",
            dots: steps.iter().map(|judged| dot(judged, x.position(judged.step.goodput))).collect(),
            x,
            y: x,
            ideal: Some((0.0, 1.0)),
            format: rate,
        },
        Panel {
            title: "p99 vs offered/s",
            dots: steps
                .iter()
                .filter_map(|judged| Some(dot(judged, latency_axis.position(seconds(&judged)?))))
                .collect(),
            x,
            y: latency_axis,
            ideal: Some((limit, limit)),
            format: |seconds| latency(Duration::from_secs_f64(seconds)),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_ends_and_ticks() {
        for (max, high) in [(0.0, 0.5), (10.0, 10.0), (33.8, 40.0), (225.0, 300.0), (100_000.0, 100_000.0)] {
            let axis = Axis::linear(max);
            assert_eq!(axis.high, high, "{max}");
            assert!((2..=6).contains(&axis.ticks().len()), "{max}: {:?}", axis.ticks());
            assert_eq!(axis.ticks().last().copied(), Some(axis.high), "{max}: {:?}", axis.ticks());
        }
    }

    #[test]
    fn logarithmic_axes_step_by_powers_of_ten() {
        let axis = Axis::logarithmic([0.004, 0.3].into_iter());
        assert_eq!(axis.ticks().len(), 4);
        assert!(
            (axis.position(0.01) - 1.0 / 3.0).abs() < 1e-9 && axis.position(0.0) == 0.0 && axis.position(9.0) == 1.0
        );
        let narrow = Axis::logarithmic([0.01].into_iter());
        assert_eq!(narrow.ticks().len(), 2, "a positive length");
    }
}
