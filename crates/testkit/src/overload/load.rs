//! How many requests come, when, and whose.

use super::SECOND;
use super::chance::Chance;

/// How important a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Served last.
    Background,
    /// The others.
    Normal,
    /// Served first.
    Vip,
}

impl Class {
    /// All of them, the lowest first.
    pub const ALL: [Self; 3] = [Self::Background, Self::Normal, Self::Vip];
}

/// How many requests come, in multiples of what the server can do at its usual pace.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Moments in seconds and what holds there; in between it changes evenly. Two at one moment are a step.
    corners: Vec<(f64, f64)>,
    /// Which share of the requests is of which class, the lowest first.
    classes: [f64; 3],
}

impl Load {
    /// The same all the time.
    pub fn steady(load: f64) -> Self {
        Self::through([(0.0, load)])
    }

    /// One load until a moment, another from then on.
    pub fn step(before: f64, at: f64, after: f64) -> Self {
        Self::through([(0.0, before), (at, before), (at, after)])
    }

    /// One load through these moments and heights.
    pub fn through(corners: impl Into<Vec<(f64, f64)>>) -> Self {
        Self { corners: corners.into(), classes: [0.0, 1.0, 0.0] }
    }

    /// The same load with these shares of background, normal and highest class.
    #[must_use]
    pub const fn classes(mut self, background: f64, normal: f64, vip: f64) -> Self {
        self.classes = [background, normal, vip];
        self
    }

    /// What holds at a moment.
    pub fn at(&self, seconds: f64) -> f64 {
        let after = self.corners.partition_point(|corner| corner.0 <= seconds);
        let Some(&(from, low)) = self.corners.get(after.wrapping_sub(1)) else { return 0.0 };
        match self.corners.get(after) {
            Some(&(to, high)) if to > from => low + (high - low) * (seconds - from) / (to - from),
            _ => low,
        }
    }

    fn most(&self) -> f64 {
        self.corners.iter().map(|corner| corner.1).fold(0.0, f64::max)
    }
}

/// The moments of arrival and their classes, by thinning out a steady stream of the highest rate.
pub(super) struct Arrivals<'a> {
    load: &'a Load,
    capacity: f64,
    gaps: Chance,
    kept: Chance,
    classes: Chance,
    at: f64,
}

impl<'a> Arrivals<'a> {
    pub(super) const fn new(load: &'a Load, capacity: f64, seed: u64) -> Self {
        let (gaps, kept, classes) = (Chance::new(seed, 1), Chance::new(seed, 2), Chance::new(seed, 3));
        Self { load, capacity, gaps, kept, classes, at: 0.0 }
    }
}

impl Iterator for Arrivals<'_> {
    type Item = (u64, Class);

    fn next(&mut self) -> Option<Self::Item> {
        let most = self.load.most();
        if most <= 0.0 {
            return None;
        }
        loop {
            self.at += self.gaps.exponential() / (most * self.capacity);
            if self.kept.share() * most <= self.load.at(self.at) {
                break;
            }
        }
        let [background, normal, _] = self.load.classes;
        let class = match self.classes.share() {
            share if share <= background => Class::Background,
            share if share <= background + normal => Class::Normal,
            _ => Class::Vip,
        };
        Some(((self.at * SECOND as f64) as u64, class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_goes_through_its_corners() {
        let load = Load::through([(0.0, 1.0), (10.0, 1.0), (10.0, 3.0), (20.0, 5.0)]);
        let heights = [0.0, 9.9, 10.0, 15.0, 20.0, 99.0].map(|at| load.at(at));
        assert_eq!(heights, [1.0, 1.0, 3.0, 4.0, 5.0, 5.0]);
    }

    #[test]
    fn as_many_come_as_the_load_says_of_each_class() {
        let load = Load::step(0.5, 50.0, 2.0).classes(0.2, 0.5, 0.3);
        let came: Vec<(u64, Class)> = Arrivals::new(&load, 100.0, 3).take_while(|it| it.0 < 100 * SECOND).collect();
        let early = came.iter().filter(|it| it.0 < 50 * SECOND).count() as f64;
        let late = came.len() as f64 - early;
        assert!((early / 2_500.0 - 1.0).abs() < 0.05 && (late / 10_000.0 - 1.0).abs() < 0.03, "{early} {late}");
        let vips = came.iter().filter(|it| it.1 == Class::Vip).count() as f64 / came.len() as f64;
        assert!((vips - 0.3).abs() < 0.02, "{vips}");
    }
}
