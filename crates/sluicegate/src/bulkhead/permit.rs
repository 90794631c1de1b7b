//! Permit of a bulkhead, as an RAII guard.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::ClassHandle;
use crate::Permit;

/// A permit. Dropping it releases it exactly once, also in a panic.
#[must_use = "dropping the permit releases it"]
pub struct BulkheadPermit {
    handle: ClassHandle,
    /// Permit of the limits of the class, released first.
    limit_permit: Option<Permit>,
}

impl BulkheadPermit {
    pub(super) fn new(handle: ClassHandle, limit_permit: Option<Permit>) -> Self {
        Self { handle, limit_permit }
    }

    /// Name of the class.
    pub fn class(&self) -> &str {
        self.handle.name()
    }

    /// Holds the permit until `value` is dropped: a pooled connection, a file, a buffer.
    ///
    /// ```
    /// use sluicegate::bulkhead::{Bulkhead, Class};
    ///
    /// let bulkhead = Bulkhead::builder(1).class("work", Class::new()).build()?;
    /// let work = bulkhead.class("work")?;
    /// let mut buffer = work.try_acquire()?.guard(Vec::new());
    /// buffer.push(1);
    /// assert!(work.try_acquire().is_err());
    /// drop(buffer);
    /// assert!(work.try_acquire().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn guard<T>(self, value: T) -> Guarded<T> {
        Guarded { value, permit: self }
    }
}

impl Drop for BulkheadPermit {
    fn drop(&mut self) {
        drop(self.limit_permit.take());
        let now = self.handle.clock().now();
        let ((), after) = self.handle.with_queues(|queues, after| queues.release(self.handle.index(), now, after));
        after.run();
    }
}

impl fmt::Debug for BulkheadPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BulkheadPermit").field("class", &self.class()).finish_non_exhaustive()
    }
}

/// A value that holds a permit. The permit is released after the value is dropped.
#[derive(Debug)]
pub struct Guarded<T> {
    // Dropped in this order.
    value: T,
    permit: BulkheadPermit,
}

impl<T> Guarded<T> {
    /// Returns the value and the permit, for operations that consume the value, such as a commit. Drop the permit
    /// last.
    pub fn into_parts(guarded: Self) -> (T, BulkheadPermit) {
        let Self { value, permit } = guarded;
        (value, permit)
    }
}

impl<T> Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
