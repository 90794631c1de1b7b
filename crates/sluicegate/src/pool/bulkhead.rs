//! The bulkhead, and the way in for each class.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::line::Granted;
use super::lines::{Afterwards, Lines, Standing};
use super::places::Share;
use super::refusal::{Cause, Refusal};
use super::status::{ClassStatus, Status};
use super::{Builder, InLine, Place, UnknownClass};
use crate::clock::ClockHandle;

/// Places, divided among classes of work. Clones share one state.
///
/// See the [module](super) for what it is for, and who gets a place.
#[derive(Clone)]
pub struct Bulkhead {
    shared: Arc<Shared>,
}

/// The way into a bulkhead for one class. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Entrance {
    shared: Arc<Shared>,
    class: usize,
}

pub(super) struct Shared {
    compartments: Vec<Compartment>,
    lines: Mutex<Lines>,
    clock: ClockHandle,
}

/// What does not change of a class.
pub(super) struct Compartment {
    name: Arc<str>,
    wait: Duration,
}

impl Compartment {
    pub(super) fn new(name: &Arc<str>, wait: Duration) -> Self {
        Self { name: Arc::clone(name), wait }
    }
}

impl Bulkhead {
    /// So many places, to be divided: the size of the pool, if there is one.
    pub fn builder(places: usize) -> Builder {
        Builder::new(places)
    }

    pub(super) fn new(compartments: Vec<Compartment>, lines: Lines, clock: ClockHandle) -> Self {
        Self { shared: Arc::new(Shared { compartments, lines: Mutex::new(lines), clock }) }
    }

    /// The way in for a class. Ask once and keep it: a name that does not exist is found at the start.
    pub fn class(&self, name: impl AsRef<str>) -> Result<Entrance, UnknownClass> {
        let name = name.as_ref();
        let mut names = self.shared.compartments.iter().map(|compartment| &*compartment.name);
        match names.clone().position(|known| known == name) {
            Some(class) => Ok(Entrance { shared: Arc::clone(&self.shared), class }),
            None => {
                let first = names.next().unwrap_or_default().to_owned();
                let known = names.fold(first, |known, name| known + ", " + name);
                Err(UnknownClass { class: name.to_owned(), known })
            }
        }
    }

    /// How many places there are.
    pub fn places(&self) -> usize {
        self.shared.lines.lock().total_and_used().0
    }

    /// How it stands now, and how callers have fared.
    pub fn status(&self) -> Status {
        let lines = self.shared.lines.lock();
        let (total, in_use) = lines.total_and_used();
        let classes = (0..self.shared.compartments.len()).map(|class| self.shared.class_status(&lines, class));
        Status { total, in_use, classes: classes.collect() }
    }
}

impl Shared {
    fn class_status(&self, lines: &Lines, class: usize) -> ClassStatus {
        let (share, waiting, counts) = lines.class(class);
        let name = Arc::clone(&self.compartments[class].name);
        ClassStatus { class: name, max: share.max, reserve: share.reserve, in_use: share.used, waiting, counts }
    }
}

impl Entrance {
    /// The name of the class.
    pub fn name(&self) -> &str {
        &self.shared.compartments[self.class].name
    }

    /// Takes a place if there is one now. Never waits, and never passes those who do.
    ///
    /// ```
    /// use sluicegate::pool::{Bulkhead, Class};
    ///
    /// let bulkhead = Bulkhead::builder(1).class("work", Class::new()).build()?;
    /// let work = bulkhead.class("work")?;
    /// let place = work.enter()?;
    /// let refusal = work.enter().unwrap_err();
    /// assert_eq!(refusal.to_string(), "no place for work: 1 of 1 in use");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter(&self) -> Result<Place, Refusal> {
        let now = self.clock().now();
        let (standing, after) = self.with_lines(|lines, after| lines.arrive(self.class, now, now, after));
        let entered = match standing {
            Standing::In(granted) => Ok(self.place(granted)),
            Standing::Refused(cause, share) => Err(self.refusal(cause, share, Duration::ZERO)),
            // Not reached: whoever has no time left is let in or refused.
            Standing::Waits(..) => Err(self.refusal(Cause::NoPlace, Share::new(0, 0), Duration::ZERO)),
        };
        after.run();
        entered
    }

    /// Waits for a place as long as the class allows, first in, first out. See [`InLine`].
    pub fn acquire(&self) -> InLine {
        InLine::new(self.clone(), self.shared.compartments[self.class].wait)
    }

    /// Waits for a place, then does the work in it. The work is not begun if there is no place, and has
    /// ended, or is dropped, before the place is free again.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// use sluicegate::pool::{Bulkhead, Class};
    ///
    /// let bulkhead = Bulkhead::builder(8).class("thumbnails", Class::new().max(2)).build()?;
    /// let thumbnails = bulkhead.class("thumbnails")?;
    /// let size = thumbnails.run(async { 128 * 128 }).await?;
    /// assert_eq!(size, 16_384);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Refusal> {
        let place = self.acquire().await?;
        let output = work.await;
        drop(place);
        Ok(output)
    }

    /// How the class stands now, and how its callers have fared.
    pub fn status(&self) -> ClassStatus {
        self.shared.class_status(&self.shared.lines.lock(), self.class)
    }

    pub(super) fn clock(&self) -> &ClockHandle {
        &self.shared.clock
    }

    pub(super) const fn index(&self) -> usize {
        self.class
    }

    /// Does something to the lines, and answers what is to be run once its result is in safe hands.
    pub(super) fn with_lines<T>(&self, change: impl FnOnce(&mut Lines, &mut Afterwards) -> T) -> (T, Afterwards) {
        let mut after = Afterwards::default();
        let result = change(&mut self.shared.lines.lock(), &mut after);
        (result, after)
    }

    pub(super) fn place(&self, granted: Granted) -> Place {
        Place::new(self.clone(), granted.0)
    }

    pub(super) fn refusal(&self, cause: Cause, share: Share, waited: Duration) -> Refusal {
        let class = Arc::clone(&self.shared.compartments[self.class].name);
        Refusal { class, cause, in_use: share.used, max: share.max, waited }
    }
}

impl fmt::Debug for Bulkhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulkhead").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entrance").field("class", &self.name()).finish_non_exhaustive()
    }
}
