//! How a bulkhead is made.

use std::sync::Arc;

use super::Class;
use super::bulkhead::{Bulkhead, Compartment};
use super::error::BulkheadError;
use super::line::Line;
use super::lines::Lines;
use super::places::{Places, Share};
use crate::Limiter;
use crate::clock::ClockHandle;

/// Collects what a bulkhead needs.
#[derive(Clone, Debug)]
#[must_use]
pub struct Builder {
    total: usize,
    classes: Vec<(Arc<str>, Class)>,
    clock: ClockHandle,
}

impl Builder {
    pub(super) fn new(total: usize) -> Self {
        Self { total, classes: Vec::new(), clock: ClockHandle::default() }
    }

    /// Adds a class. Its name can be a string, or anything of yours that is [`AsRef<str>`], such as an
    /// enum.
    pub fn class(mut self, name: impl AsRef<str>, class: Class) -> Self {
        self.classes.push((name.as_ref().into(), class));
        self
    }

    /// Takes the time from another clock than the system's.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.clock = clock.into();
        self
    }

    /// The bulkhead, if the numbers fit each other.
    pub fn build(self) -> Result<Bulkhead, BulkheadError> {
        if self.total == 0 {
            return Err(BulkheadError::NoPlaces);
        }
        if self.classes.is_empty() {
            return Err(BulkheadError::NoClasses);
        }
        for (place, (name, class)) in self.classes.iter().enumerate() {
            if self.classes.iter().take(place).any(|(other, _)| other == name) {
                return Err(BulkheadError::Twice { class: name.to_string() });
            }
            self.check(name, class)?;
        }
        self.check_reserves()?;
        let shares = self.classes.iter().map(|(_, class)| self.share(class)).collect();
        let lines = self.classes.iter().map(|(name, class)| self.line(name, class)).collect::<Result<_, _>>()?;
        let compartments = self.classes.iter().map(|(name, class)| Compartment::new(name, class.wait)).collect();
        Ok(Bulkhead::new(compartments, Lines::new(Places::new(self.total, shares), lines), self.clock))
    }

    fn share(&self, class: &Class) -> Share {
        Share::new(class.max.unwrap_or(self.total), class.reserve)
    }

    fn check(&self, name: &str, class: &Class) -> Result<(), BulkheadError> {
        let (total, reserve, max) = (self.total, class.reserve, class.max.unwrap_or(self.total));
        let class = || name.to_owned();
        if max == 0 {
            return Err(BulkheadError::MaxZero { class: class() });
        }
        if max > total {
            return Err(BulkheadError::MaxTooLarge { class: class(), max, total });
        }
        if reserve > max {
            return Err(BulkheadError::ReserveAboveMax { class: class(), reserve, max });
        }
        Ok(())
    }

    fn check_reserves(&self) -> Result<(), BulkheadError> {
        let mut reserves = self.classes.iter().map(|(_, class)| class.reserve);
        if reserves.try_fold(0, usize::checked_add).is_some_and(|reserved| reserved <= self.total) {
            return Ok(());
        }
        let reserving = self.classes.iter().filter(|(_, class)| class.reserve > 0);
        let reserves: Vec<_> = reserving.map(|(name, class)| format!("{} for {name}", class.reserve)).collect();
        Err(BulkheadError::ReservesTooLarge { reserves: reserves.join(", "), total: self.total })
    }

    fn line(&self, name: &str, class: &Class) -> Result<Line, BulkheadError> {
        let limiter = match class.limits.as_slice() {
            [] => None,
            limits => {
                let builder = Limiter::builder().limits(limits.iter().copied()).clock(self.clock.clone());
                let build = builder.build();
                Some(build.map_err(|source| BulkheadError::Limit { class: name.to_owned(), source })?)
            }
        };
        Ok(Line::new(class.importance, class.max_waiting, limiter))
    }
}
