//! What a caller holds after being let in.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::Entrance;
use crate::Pass;

/// A place inside. Dropping it gives it back, exactly once, however the work ends.
#[must_use = "dropping the place gives it back"]
pub struct Place {
    entrance: Entrance,
    /// What the limits of the class have taken, given back before the place is.
    pass: Option<Pass>,
}

impl Place {
    pub(super) fn new(entrance: Entrance, pass: Option<Pass>) -> Self {
        Self { entrance, pass }
    }

    /// The class it belongs to.
    pub fn class(&self) -> &str {
        self.entrance.name()
    }

    /// Keeps the place for as long as `value` lives: a connection taken from any pool, a file, a buffer.
    ///
    /// ```
    /// use sluicegate::pool::{Bulkhead, Class};
    ///
    /// let bulkhead = Bulkhead::builder(1).class("work", Class::new()).build()?;
    /// let work = bulkhead.class("work")?;
    /// let mut buffer = work.enter()?.hold(Vec::new());
    /// buffer.push(1);
    /// assert!(work.enter().is_err());
    /// drop(buffer);
    /// assert!(work.enter().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hold<T>(self, value: T) -> Held<T> {
        Held { value, place: self }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.pass.take());
        let now = self.entrance.clock().now();
        let ((), after) = self.entrance.with_lines(|lines, after| lines.give(self.entrance.index(), now, after));
        after.run();
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place").field("class", &self.class()).finish_non_exhaustive()
    }
}

/// Something that lives in a place. The place is free again after it is dropped.
#[derive(Debug)]
pub struct Held<T> {
    // Dropped in this order.
    value: T,
    place: Place,
}

impl<T> Held<T> {
    /// Takes the two apart, for what ends the value by taking it, such as a commit. Let go of the place
    /// last.
    pub fn into_parts(held: Self) -> (T, Place) {
        let Self { value, place } = held;
        (value, place)
    }
}

impl<T> Deref for Held<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Held<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
