//! A caller that waits for the store.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sluicegate_engine::algorithm::Status;
use tokio::sync::oneshot::{self, Receiver, Sender};

use super::holder::{Outcome, Waiter};
use super::table::LeaseTable;

/// What a caller hears with.
#[derive(Debug)]
pub(crate) struct Ear(Sender<(Outcome, Status)>);

impl Ear {
    /// Tells the caller; hands the outcome back if it has gone.
    pub(super) fn tell(self, outcome: Outcome, status: Status) -> Option<Outcome> {
        self.0.send((outcome, status)).err().map(|(outcome, _)| outcome)
    }
}

impl Waiter for Ear {
    fn is_gone(&self) -> bool {
        self.0.is_closed()
    }
}

/// A caller's wait for the store's answer. Dropping it gives back what came too late for it.
#[must_use = "the outcome is what was asked for"]
pub(crate) struct Waiting {
    heard: Receiver<(Outcome, Status)>,
    table: Arc<LeaseTable>,
    hash: u64,
}

impl Waiting {
    pub(super) fn new(table: &Arc<LeaseTable>, hash: u64) -> (Ear, Self) {
        let (sender, heard) = oneshot::channel();
        (Ear(sender), Self { heard, table: Arc::clone(table), hash })
    }
}

impl Future for Waiting {
    type Output = (Outcome, Option<Status>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.heard).poll(context).map(|heard| match heard {
            Ok((outcome, status)) => (outcome, Some(status)),
            // Whoever should have answered is no more.
            Err(_) => (Outcome::Failed, None),
        })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.heard.close();
        if let Ok((Outcome::Taken(slip), _)) = self.heard.try_recv() {
            self.table.give_back(self.hash, slip);
        }
    }
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}
