//! Builder of a bulkhead.

use std::sync::Arc;

use super::Class;
use super::capacity::{Capacity, ClassCapacity};
use super::class_queue::ClassQueue;
use super::error::BulkheadError;
use super::handle::{Bulkhead, ClassState};
use super::queues::ClassQueues;
use crate::Limiter;
use crate::clock::ClockHandle;

/// Builds a [`Bulkhead`].
#[derive(Clone, Debug)]
#[must_use]
pub struct BulkheadBuilder {
    total: usize,
    classes: Vec<(Arc<str>, Class)>,
    clock: ClockHandle,
}

impl BulkheadBuilder {
    pub(super) fn new(total: usize) -> Self {
        Self { total, classes: Vec::new(), clock: ClockHandle::default() }
    }

    /// Adds a class. The name can be a string or any type that implements [`AsRef<str>`], such as an enum.
    pub fn class(mut self, name: impl AsRef<str>, class: Class) -> Self {
        self.classes.push((name.as_ref().into(), class));
        self
    }

    /// Sets the clock; the default is the system clock.
    pub fn clock(mut self, clock: impl Into<ClockHandle>) -> Self {
        self.clock = clock.into();
        self
    }

    /// Builds the bulkhead. Fails if the numbers are inconsistent.
    pub fn build(self) -> Result<Bulkhead, BulkheadError> {
        if self.total == 0 {
            return Err(BulkheadError::ZeroCapacity);
        }
        if self.classes.is_empty() {
            return Err(BulkheadError::NoClasses);
        }
        for (index, (name, class)) in self.classes.iter().enumerate() {
            if self.classes.iter().take(index).any(|(other, _)| other == name) {
                return Err(BulkheadError::DuplicateClass { class: name.to_string() });
            }
            self.check(name, class)?;
        }
        self.check_reserves()?;
        let shares = self.classes.iter().map(|(_, class)| self.class_capacity(class)).collect();
        let queues = self.classes.iter().map(|(name, class)| self.queue(name, class)).collect::<Result<_, _>>()?;
        let states = self.classes.iter().map(|(name, class)| ClassState::new(name, class.wait)).collect();
        Ok(Bulkhead::new(states, ClassQueues::new(Capacity::new(self.total, shares), queues), self.clock))
    }

    fn class_capacity(&self, class: &Class) -> ClassCapacity {
        ClassCapacity::new(class.max.unwrap_or(self.total), class.reserve)
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

    fn queue(&self, name: &str, class: &Class) -> Result<ClassQueue, BulkheadError> {
        let limiter = match class.limits.as_slice() {
            [] => None,
            limits => {
                let builder = Limiter::builder().limits(limits.iter().copied()).clock(self.clock.clone());
                let build = builder.build();
                Some(build.map_err(|source| BulkheadError::Limit { class: name.to_owned(), source })?)
            }
        };
        Ok(ClassQueue::new(class.importance, class.max_waiting, limiter))
    }
}
