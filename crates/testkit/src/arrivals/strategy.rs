//! Proptest strategies for arrivals.
//!
//! A sequence is built from clock steps between arrivals instead of absolute times. Shrinking a step
//! shifts everything after it, so the sequence stays one that a clock could have shown.

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Arrival, ArrivalScale};

/// Clock movement between two arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStep {
    /// The clock stands still.
    Stall,
    /// The clock advances by this many nanoseconds.
    Forward(u64),
    /// The clock moves to the next window edge plus this offset in nanoseconds (negative: before the edge).
    Edge(i64),
    /// The clock steps back by this many nanoseconds.
    Back(u64),
}

impl ClockStep {
    /// Clock reading after this step.
    pub const fn apply(self, now: u64, scale: &ArrivalScale) -> u64 {
        match self {
            Self::Stall => now,
            Self::Forward(nanos) => now.saturating_add(nanos),
            Self::Edge(off) => scale.edge_after(now).saturating_add_signed(off),
            Self::Back(nanos) => now.saturating_sub(nanos),
        }
    }
}

/// Steps of a clock that never goes back.
pub fn forward_steps(scale: ArrivalScale) -> BoxedStrategy<ClockStep> {
    let (gap, window) = (scale.gap(), scale.window);
    prop_oneof![
        3 => Just(ClockStep::Stall),
        4 => (0..=gap.saturating_mul(2)).prop_map(ClockStep::Forward),
        2 => (0..=window).prop_map(ClockStep::Forward),
        1 => (0..=window.saturating_mul(5)).prop_map(ClockStep::Forward),
        2 => (0..=2i64).prop_map(ClockStep::Edge),
        1 => Just(ClockStep::Edge(-1)),
    ]
    .boxed()
}

/// Steps of a clock that may also step back.
pub fn any_steps(scale: ArrivalScale) -> BoxedStrategy<ClockStep> {
    let (gap, window) = (scale.gap(), scale.window);
    prop_oneof![
        8 => forward_steps(scale),
        1 => (0..=gap.saturating_mul(2)).prop_map(ClockStep::Back),
        1 => (0..=window.saturating_mul(3)).prop_map(ClockStep::Back),
    ]
    .boxed()
}

/// Costs: mostly small, up to the scale's maximum, sometimes zero, sometimes above the maximum.
pub fn cost(scale: ArrivalScale) -> BoxedStrategy<u64> {
    let max_cost = scale.max_cost.max(1);
    prop_oneof![
        6 => Just(1u64),
        6 => 1..=max_cost,
        1 => Just(0u64),
        1 => Just(max_cost),
        1 => max_cost..=max_cost.saturating_mul(2).saturating_add(1),
    ]
    .boxed()
}

/// Arrival sequences built from the given clock steps.
pub fn arrivals_with_steps(
    scale: ArrivalScale,
    steps: BoxedStrategy<ClockStep>,
    length: RangeInclusive<usize>,
) -> BoxedStrategy<Vec<Arrival>> {
    vec((steps, cost(scale)), length)
        .prop_map(move |steps| {
            let mut now = scale.start;
            let arrive = |(step, cost): (ClockStep, u64)| {
                now = step.apply(now, &scale);
                Arrival { at: now, cost }
            };
            steps.into_iter().map(arrive).collect()
        })
        .boxed()
}

/// Arrival sequences on a clock that stalls, jumps and steps back.
pub fn arrivals(scale: ArrivalScale, length: RangeInclusive<usize>) -> BoxedStrategy<Vec<Arrival>> {
    arrivals_with_steps(scale, any_steps(scale), length)
}

/// Arrival sequences on a clock that stalls and jumps but never steps back.
pub fn monotonic_arrivals(scale: ArrivalScale, length: RangeInclusive<usize>) -> BoxedStrategy<Vec<Arrival>> {
    arrivals_with_steps(scale, forward_steps(scale), length)
}
