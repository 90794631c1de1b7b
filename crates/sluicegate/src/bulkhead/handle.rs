//! The bulkhead, and the handle of each class.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::capacity::ClassCapacity;
use super::class_queue::Granted;
use super::queues::{ClassQueues, QueueResult, Wakeups};
use super::refusal::{BulkheadCause, BulkheadRefusal};
use super::status::{BulkheadStatus, ClassStatus};
use super::{AcquirePermit, BulkheadBuilder, BulkheadPermit, UnknownClass};
use crate::clock::ClockHandle;

/// A bulkhead: capacity divided among classes of work. Clones share one state.
///
/// See the [module](super) for an overview and the admission rules.
#[derive(Clone)]
pub struct Bulkhead {
    shared: Arc<BulkheadShared>,
}

/// Handle of one class of a bulkhead. Cheap to clone.
#[derive(Clone)]
pub struct ClassHandle {
    shared: Arc<BulkheadShared>,
    class: usize,
}

pub(super) struct BulkheadShared {
    classes: Vec<ClassState>,
    queues: Mutex<ClassQueues>,
    clock: ClockHandle,
}

/// Immutable settings of a class.
pub(super) struct ClassState {
    name: Arc<str>,
    wait: Duration,
}

impl ClassState {
    pub(super) fn new(name: &Arc<str>, wait: Duration) -> Self {
        Self { name: Arc::clone(name), wait }
    }
}

impl Bulkhead {
    /// Creates a builder for a bulkhead with this capacity: the size of the pool, if there is one.
    pub fn builder(capacity: usize) -> BulkheadBuilder {
        BulkheadBuilder::new(capacity)
    }

    pub(super) fn new(states: Vec<ClassState>, queues: ClassQueues, clock: ClockHandle) -> Self {
        Self { shared: Arc::new(BulkheadShared { classes: states, queues: Mutex::new(queues), clock }) }
    }

    /// Returns the handle of a class. Look it up once at startup, so that an unknown name is found there.
    pub fn class(&self, name: impl AsRef<str>) -> Result<ClassHandle, UnknownClass> {
        let name = name.as_ref();
        let mut names = self.shared.classes.iter().map(|state| &*state.name);
        match names.clone().position(|known| known == name) {
            Some(class) => Ok(ClassHandle { shared: Arc::clone(&self.shared), class }),
            None => {
                let first = names.next().unwrap_or_default().to_owned();
                let known = names.fold(first, |known, name| known + ", " + name);
                Err(UnknownClass { class: name.to_owned(), known })
            }
        }
    }

    /// Capacity of the bulkhead.
    pub fn capacity(&self) -> usize {
        self.shared.queues.lock().total_and_used().0
    }

    /// Status and counters of all classes.
    pub fn status(&self) -> BulkheadStatus {
        let queues = self.shared.queues.lock();
        let (total, in_use) = queues.total_and_used();
        let classes = (0..self.shared.classes.len()).map(|class| self.shared.class_status(&queues, class));
        BulkheadStatus { total, in_use, classes: classes.collect() }
    }
}

impl BulkheadShared {
    fn class_status(&self, queues: &ClassQueues, class: usize) -> ClassStatus {
        let (share, waiting, counts) = queues.class(class);
        let name = Arc::clone(&self.classes[class].name);
        ClassStatus { class: name, max: share.max, reserve: share.reserve, in_use: share.used, waiting, counts }
    }
}

impl ClassHandle {
    /// Name of the class.
    pub fn name(&self) -> &str {
        &self.shared.classes[self.class].name
    }

    /// Acquires a permit if one is free. Never waits, and never overtakes waiting callers.
    ///
    /// ```
    /// use sluicegate::bulkhead::{Bulkhead, Class};
    ///
    /// let bulkhead = Bulkhead::builder(1).class("work", Class::new()).build()?;
    /// let work = bulkhead.class("work")?;
    /// let permit = work.try_acquire()?;
    /// let refusal = work.try_acquire().unwrap_err();
    /// assert_eq!(refusal.to_string(), "no permit for work: 1 of 1 in use");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_acquire(&self) -> Result<BulkheadPermit, BulkheadRefusal> {
        let now = self.clock().now();
        let (result, after) = self.with_queues(|queues, after| queues.join(self.class, now, now, after));
        let permit = match result {
            QueueResult::Admitted(granted) => Ok(self.permit(granted)),
            QueueResult::Refused(cause, share) => Err(self.refusal(cause, share, Duration::ZERO)),
            // Unreachable: a caller whose deadline has passed is admitted or refused.
            QueueResult::Queued(..) => {
                Err(self.refusal(BulkheadCause::NoPermit, ClassCapacity::new(0, 0), Duration::ZERO))
            }
        };
        after.run();
        permit
    }

    /// Waits for a permit up to the timeout of the class, first in, first out. See [`AcquirePermit`].
    pub fn acquire(&self) -> AcquirePermit {
        AcquirePermit::new(self.clone(), self.shared.classes[self.class].wait)
    }

    /// Waits for a permit, then runs the work. The work does not start without a permit; the permit is released after
    /// the work has ended or is dropped.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use sluicegate::bulkhead::{Bulkhead, Class};
    ///
    /// let bulkhead = Bulkhead::builder(8).class("thumbnails", Class::new().max(2)).build()?;
    /// let thumbnails = bulkhead.class("thumbnails")?;
    /// let size = thumbnails.run(async { 128 * 128 }).await?;
    /// assert_eq!(size, 16_384);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, BulkheadRefusal> {
        let permit = self.acquire().await?;
        let output = work.await;
        drop(permit);
        Ok(output)
    }

    /// Status and counters of the class.
    pub fn status(&self) -> ClassStatus {
        self.shared.class_status(&self.shared.queues.lock(), self.class)
    }

    pub(super) fn clock(&self) -> &ClockHandle {
        &self.shared.clock
    }

    pub(super) const fn index(&self) -> usize {
        self.class
    }

    /// Changes the queues under the lock. The caller runs the returned wake-ups after it has stored the result.
    pub(super) fn with_queues<T>(&self, change: impl FnOnce(&mut ClassQueues, &mut Wakeups) -> T) -> (T, Wakeups) {
        let mut after = Wakeups::default();
        let result = change(&mut self.shared.queues.lock(), &mut after);
        (result, after)
    }

    pub(super) fn permit(&self, granted: Granted) -> BulkheadPermit {
        BulkheadPermit::new(self.clone(), granted.0)
    }

    pub(super) fn refusal(&self, cause: BulkheadCause, share: ClassCapacity, waited: Duration) -> BulkheadRefusal {
        let class = Arc::clone(&self.shared.classes[self.class].name);
        BulkheadRefusal { class, cause, in_use: share.used, max: share.max, waited }
    }
}

impl fmt::Debug for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulkhead").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ClassHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassHandle").field("class", &self.name()).finish_non_exhaustive()
    }
}
