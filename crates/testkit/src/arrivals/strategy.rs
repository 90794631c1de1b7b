//! Arrivals as proptest strategies.
//!
//! A sequence is made of steps from one arrival to the next rather than of moments, so that shrinking
//! a step moves everything after it along and the sequence stays one a clock could have shown.

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Arrival, Scale};

/// How the clock gets from one arrival to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The clock stands.
    Stall,
    /// It goes on by so many nanoseconds.
    Ahead(u64),
    /// It goes to the next window edge, this many nanoseconds off (negative: before it).
    Edge(i64),
    /// It is set back by so many nanoseconds.
    Back(u64),
}

impl Step {
    /// What the clock shows after this step.
    pub const fn from(self, now: u64, scale: &Scale) -> u64 {
        match self {
            Self::Stall => now,
            Self::Ahead(nanos) => now.saturating_add(nanos),
            Self::Edge(off) => scale.edge_after(now).saturating_add_signed(off),
            Self::Back(nanos) => now.saturating_sub(nanos),
        }
    }
}

/// Steps of a clock that never goes back.
pub fn forward(scale: Scale) -> BoxedStrategy<Step> {
    let (gap, window) = (scale.gap(), scale.window);
    prop_oneof![
        3 => Just(Step::Stall),
        4 => (0..=gap.saturating_mul(2)).prop_map(Step::Ahead),
        2 => (0..=window).prop_map(Step::Ahead),
        1 => (0..=window.saturating_mul(5)).prop_map(Step::Ahead),
        2 => (0..=2i64).prop_map(Step::Edge),
        1 => Just(Step::Edge(-1)),
    ]
    .boxed()
}

/// Steps of a clock that also steps back.
pub fn wild(scale: Scale) -> BoxedStrategy<Step> {
    let (gap, window) = (scale.gap(), scale.window);
    prop_oneof![
        8 => forward(scale),
        1 => (0..=gap.saturating_mul(2)).prop_map(Step::Back),
        1 => (0..=window.saturating_mul(3)).prop_map(Step::Back),
    ]
    .boxed()
}

/// Costs: mostly small, up to the scale's, sometimes none, sometimes beyond it.
pub fn cost(scale: Scale) -> BoxedStrategy<u64> {
    let most = scale.cost.max(1);
    prop_oneof![
        6 => Just(1u64),
        6 => 1..=most,
        1 => Just(0u64),
        1 => Just(most),
        1 => most..=most.saturating_mul(2).saturating_add(1),
    ]
    .boxed()
}

/// Sequences of arrivals whose clock makes such steps.
pub fn along(scale: Scale, steps: BoxedStrategy<Step>, length: RangeInclusive<usize>) -> BoxedStrategy<Vec<Arrival>> {
    vec((steps, cost(scale)), length)
        .prop_map(move |steps| {
            let mut now = scale.start;
            let arrive = |(step, cost): (Step, u64)| {
                now = step.from(now, &scale);
                Arrival { at: now, cost }
            };
            steps.into_iter().map(arrive).collect()
        })
        .boxed()
}

/// Sequences on a clock that stalls, jumps and steps back.
pub fn arrivals(scale: Scale, length: RangeInclusive<usize>) -> BoxedStrategy<Vec<Arrival>> {
    along(scale, wild(scale), length)
}

/// Sequences on a clock that stalls and jumps but never steps back.
pub fn orderly(scale: Scale, length: RangeInclusive<usize>) -> BoxedStrategy<Vec<Arrival>> {
    along(scale, forward(scale), length)
}
